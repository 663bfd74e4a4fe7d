package simulator

import "encoding/json"

type abiDoc struct {
	Version  string       `json:"version"`
	Types    []abiAlias   `json:"types"`
	Structs  []abiStruct  `json:"structs"`
	Variants []abiVariant `json:"variants"`
	Tables   []abiTable   `json:"tables"`
}

type abiAlias struct {
	NewTypeName string `json:"new_type_name"`
	Type        string `json:"type"`
}

type abiStruct struct {
	Name   string     `json:"name"`
	Base   string     `json:"base"`
	Fields []abiField `json:"fields"`
}

type abiField struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type abiVariant struct {
	Name  string   `json:"name"`
	Types []string `json:"types"`
}

type abiTable struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	KeyNames []string `json:"key_names"`
}

// ABIWith is the ABI of a Spring node with one more type, so that it is another
// one than all nodes have.
func ABIWith(extra string) []byte { return abiText(false, extra) }

// abiText is the first message of a node: enough of the State History ABI to
// read every message of the protocol with it, though not what is inside the
// payload fields. v0Only leaves out what nodes before Spring lack.
func abiText(v0Only bool, extra ...string) []byte {
	position := func(names ...string) (out []abiField) {
		for _, n := range names {
			out = append(out, abiField{n, "block_position"})
		}
		return out
	}
	numbers := func(names ...string) (out []abiField) {
		for _, n := range names {
			out = append(out, abiField{n, "uint32"})
		}
		return out
	}
	status := func(chainID string) []abiField {
		f := append(position("head", "last_irreversible"),
			numbers("trace_begin_block", "trace_end_block", "chain_state_begin_block", "chain_state_end_block")...)
		return append(f, abiField{"chain_id", chainID})
	}
	blocks := append(position("head", "last_irreversible"),
		abiField{"this_block", "block_position?"}, abiField{"prev_block", "block_position?"},
		abiField{"block", "bytes?"}, abiField{"traces", "bytes?"}, abiField{"deltas", "bytes?"})

	doc := abiDoc{
		Version: "eosio::abi/1.1",
		Types:   []abiAlias{{"transaction_id", "checksum256"}},
		Structs: []abiStruct{
			{Name: "block_position", Fields: []abiField{{"block_num", "uint32"}, {"block_id", "checksum256"}}},
			{Name: "get_status_request_v0", Fields: []abiField{}},
			{Name: "get_status_result_v0", Fields: status("checksum256$")},
			{Name: "get_blocks_request_v0", Fields: append(numbers("start_block_num", "end_block_num", "max_messages_in_flight"),
				abiField{"have_positions", "block_position[]"}, abiField{"irreversible_only", "bool"},
				abiField{"fetch_block", "bool"}, abiField{"fetch_traces", "bool"}, abiField{"fetch_deltas", "bool"})},
			{Name: "get_blocks_ack_request_v0", Fields: numbers("num_messages")},
			{Name: "get_blocks_result_v0", Fields: blocks},
			{Name: "row_v0", Fields: []abiField{{"present", "bool"}, {"data", "bytes"}}},
			{Name: "table_delta_v0", Fields: []abiField{{"name", "string"}, {"rows", "row_v0[]"}}},
		},
		Variants: []abiVariant{
			{"request", []string{"get_status_request_v0", "get_blocks_request_v0", "get_blocks_ack_request_v0"}},
			{"result", []string{"get_status_result_v0", "get_blocks_result_v0"}},
			{"table_delta", []string{"table_delta_v0"}},
		},
		Tables: []abiTable{},
	}
	if !v0Only {
		doc.Structs = append(doc.Structs,
			abiStruct{Name: "get_status_request_v1", Fields: []abiField{}},
			abiStruct{Name: "get_status_result_v1", Fields: append(status("checksum256"),
				numbers("finality_data_begin_block", "finality_data_end_block")...)},
			abiStruct{Name: "get_blocks_request_v1", Base: "get_blocks_request_v0", Fields: []abiField{{"fetch_finality_data", "bool"}}},
			abiStruct{Name: "get_blocks_result_v1", Base: "get_blocks_result_v0", Fields: []abiField{{"finality_data", "bytes?"}}},
		)
		doc.Variants[0].Types = append(doc.Variants[0].Types, "get_blocks_request_v1", "get_status_request_v1")
		doc.Variants[1].Types = append(doc.Variants[1].Types, "get_blocks_result_v1", "get_status_result_v1")
	}
	for _, name := range extra {
		doc.Structs = append(doc.Structs, abiStruct{Name: name, Fields: []abiField{}})
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic("simulator: the ABI is plain strings: " + err.Error())
	}
	return text
}
