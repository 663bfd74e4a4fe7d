package chainapi

import "testing"

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		method, target string
		want           Class
	}{
		{"POST", "/v1/chain/get_info", Info},
		{"GET", "/v1/chain/get_info", Info},
		{"post", "/v1/chain/get_info", Info},
		{"POST", "/v1/chain/get_block", Block},
		{"POST", "/v1/chain/get_block_info", Block},
		{"POST", "/v1/chain/get_block_header", Block},
		{"POST", "/v1/chain/get_block_header_state", Block},
		{"POST", "/v1/chain/get_raw_block", Block},
		{"POST", "/v1/chain/get_account", State},
		{"POST", "/v1/chain/anything_9", State},
		{"POST", "/v1/chain/_", State},
		{"POST", "/v1/chain/compute_transaction", Exec},
		{"POST", "/v1/chain/send_read_only_transaction", Exec},
		{"POST", "/v1/chain/push_transaction", Push},
		{"POST", "/v1/chain/push_transactions", Push},
		{"POST", "/v1/chain/send_transaction", Push},
		{"POST", "/v1/chain/send_transaction2", Push},
		{"POST", "/v1/node/get_supported_apis", Node},
		{"OPTIONS", "/", Node},
		{"OPTIONS", "/v1/chain/push_block", Node},
		{"options", "/", Denied},

		{"POST", "/v1/chain/push_block", Denied},
		{"POST", "/v1/chain/get_info?", Denied},
		{"POST", "/v1/chain/get_info?a=b", Denied},
		{"POST", "/v1/chain/Get_info", Denied},
		{"POST", "/v1/chain/get-info", Denied},
		{"POST", "/v1/chain/get_info/", Denied},
		{"POST", "/v1/chain/", Denied},
		{"POST", "/v1/chain", Denied},
		{"POST", "//v1/chain/get_info", Denied},
		{"POST", "/v1/node/get_supported_apis?", Denied},
		{"POST", "/v1/archive/describe", Denied},
		{"POST", "/v1/trace_api/get_block", Denied},
		{"POST", "/", Denied},

		{"POST", "", Invalid},
		{"OPTIONS", "*", Invalid},
		{"OPTIONS", "/..", Invalid},
		{"GET", "http://host/v1/chain/get_info", Invalid},
		{"POST", "/v1/chain/get_info?a=..", Invalid},
		{"POST", "/v1/chain/a..b", Invalid},
	} {
		if got := decode([]byte(c.method), []byte(c.target)); got != c.want {
			t.Errorf("%s %s is %s, %s was due", c.method, c.target, got, c.want)
		}
	}
}

func TestFragmentIsDropped(t *testing.T) {
	for target, want := range map[string]string{"/a#b": "/a", "/a": "/a", "/a#": "/a", "/a#..#": "/a"} {
		if got := string(path([]byte(target))); got != want {
			t.Errorf("%s is %s", target, got)
		}
	}
}
