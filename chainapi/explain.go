package chainapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"flotilla/gateway/config"
	"flotilla/policies"
	"flotilla/policies/choice"
)

// Imagined is a request that might be made.
type Imagined struct {
	// Method is POST when it is empty.
	Method string          `json:"method,omitempty"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"`
	// Client is an address, and Headers are the request's.
	Client  string            `json:"client,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// ImaginedFields are the names of the fields of Imagined, for messages.
const ImaginedFields = "path, body, method, client, headers"

// tierNames are the tiers of an irreversible block, in words.
var tierNames = [tiers]string{
	tierF: "archives that serve the block",
	tierL: "live nodes whose block log holds it",
	tierU: "live nodes that do not tell where theirs begins",
	tierX: "live nodes whose log begins above it",
}

// Explain tells which nodes would be asked for a request, and why; name is that
// of the policy. It plans as for a real one, asks nobody, and changes nothing.
func (p *Port) Explain(q Imagined, name string) choice.Answer {
	e := explanation{p: p, s: p.settings.Load(), v: p.View(), q: q, now: time.Now(), path: path([]byte(q.Path)), ranks: map[*API]int{}}
	tip := p.fleet.Pair()
	e.head, e.lib = tip.Head.Num, tip.LIB.Num
	e.answer = choice.Answer{Listener: e.s.Name, Protocol: "chain_api", Request: q, Head: uint64(e.head), LIB: uint64(max(e.lib, e.v.lib())), Plan: "serve",
		Servers: []choice.Server{}, Order: []string{}}
	e.answer.Under(name, e.s.policy)
	e.explain()
	return e.answer
}

// explanation is one on its way.
type explanation struct {
	p         *Port
	s         *settings
	v         *View
	q         Imagined
	now       time.Time
	path      []byte
	head, lib uint32
	// class is that of the request, block and plan those of a block request.
	class Class
	block Question
	plan  plan
	// ranks are the tiers of the candidates.
	ranks  map[*API]int
	record choice.Recorder
	answer choice.Answer
}

func (e *explanation) explain() {
	method := e.q.Method
	if method == "" {
		method = "POST"
	}
	e.class = decode([]byte(method), e.path)
	own := e.class == Node || e.class == Denied || e.class == Invalid
	if own || !e.s.allows(e.class) {
		e.answer.Plan = "refuse"
		why := "the port answers itself"
		if !own {
			why = "allow does not list"
		}
		e.answer.Say("%s is of class %s, which %s; no node is asked", e.q.Path, e.class, why)
		return
	}
	list := e.candidates()
	for i := range e.v.APIs {
		e.answer.Servers = append(e.answer.Servers, e.server(&e.v.APIs[i], list))
	}
	e.answer.Say("the request is of class %s%s", e.class, e.about())
	if len(list) == 0 {
		e.answer.Plan = "refuse"
	}
	e.answer.Planned()
	for _, asked := range e.record.Questions {
		e.answer.Asked(asked)
	}
	if len(list) > 0 && len(e.record.Questions) == 0 {
		e.answer.Say("%s", e.unasked())
	}
	var order []string
	for _, a := range list {
		order = append(order, a.Server.Name)
	}
	e.answer.Chosen(order)
}

// candidates are the nodes that would be asked, in order.
func (e *explanation) candidates() []*API {
	var ask *asker
	if e.s.policy != nil {
		e.record.Policy = e.s.policy
		ask = e.asker()
	}
	primary := nextPrimary(e.v, e.p.primary.Load())
	switch e.class {
	case Block:
		if e.block = question(e.path, e.q.Body); e.block.Known {
			ask.about(e.block.Num)
			e.plan = planBlock(e.v, e.path, e.block, e.s.rules, e.lib, e.now, ask)
			if e.plan.irreversible {
				for rank, tier := range byTier(e.v, e.path, e.block.Num, e.plan.claimed, e.s.rules, e.now) {
					for _, a := range tier {
						e.ranks[a] = rank
					}
				}
			}
			return e.plan.candidates
		}
		return planState(e.v, e.path, e.s.rules, e.head, e.p.turns.Load()+1, (*API).usable, e.now, ask)
	case State:
		return planState(e.v, e.path, e.s.rules, e.head, e.p.turns.Load()+1, (*API).usable, e.now, ask)
	case Exec:
		return planState(e.v, e.path, e.s.rules, e.head, e.p.turns.Load()+1, (*API).usableOnce, e.now, ask)
	case Info:
		return planInfo(e.v, primary, e.now)
	default:
		return planPush(e.v, e.s.api.PushServers, primary, e.now)
	}
}

// asker asks the recorder for the imagined client.
func (e *explanation) asker() *asker {
	top := e.head
	for i := range e.v.APIs {
		top = max(top, e.v.APIs[i].head())
	}
	a := &asker{policy: &e.record, port: e.p, head: top, now: e.now}
	a.Request = policies.Request{
		Protocol: "chain_api", Listener: e.s.Name, Session: 1, Client: e.q.Client, Class: string(e.class), Path: string(e.path),
		Start: policies.NoBlock, End: policies.NoBlock,
	}
	for key, value := range e.q.Headers {
		for _, name := range e.s.headers {
			if strings.EqualFold(key, string(name)) {
				a.SetHeader(string(name), value)
			}
		}
	}
	return a
}

// about says which block is asked for.
func (e *explanation) about() string {
	switch {
	case e.class != Block:
		return ""
	case !e.block.Known:
		return ", and names no block that can be read"
	case e.plan.irreversible:
		text := fmt.Sprintf(", for block %d, which cannot change any more", e.block.Num)
		for rank, name := range e.tiers() {
			text += fmt.Sprintf("; rank %d: %s", rank, name)
		}
		return text
	}
	return fmt.Sprintf(", for block %d, which can still change, so live nodes answer", e.block.Num)
}

// tiers are the names of the tiers, in the order in which they are asked.
func (e *explanation) tiers() [tiers]string {
	names := tierNames
	if e.s.rules.LiveFirst {
		names[tierF], names[tierL] = names[tierL], names[tierF]
	}
	return names
}

// unasked is why no policy was.
func (e *explanation) unasked() string {
	switch {
	case e.class == Info || e.class == Push && len(e.s.api.PushServers) == 0:
		return "get_info and pushes keep to one node, and are not a matter of the policy"
	case e.class == Push:
		return "pushes go by push_servers, and are not a matter of the policy"
	case e.s.policy == nil:
		return "the built-in order decides: priority, then requests under way for the weight"
	}
	return "no two of them are equally able, so the policy is not asked"
}

// server is what becomes of one.
func (e *explanation) server(a *API, list []*API) choice.Server {
	s := choice.Server{Name: a.Server.Name, Online: a.Up(), Head: uint64(a.head()), InFlight: a.link.slots.used(), Rank: e.ranks[a]}
	if s.Candidate = slices.Contains(list, a); s.Candidate {
		return s
	}
	for _, q := range e.record.Questions {
		// What the policy has dropped is no matter of the plan.
		s.Candidate = s.Candidate || slices.Contains(q.Asked, s.Name) && !slices.Contains(q.Kept, s.Name)
	}
	if !s.Candidate {
		s.Excluded = e.why(a)
	}
	return s
}

// why is why a node is not asked.
func (e *explanation) why(a *API) string {
	archive := a.Server.Role == config.Frozen
	switch {
	case a.WrongChain:
		return "it is on another chain"
	case a.Disabled:
		return "an operator has disabled it"
	case archive && e.class != Block:
		return "archives answer for blocks only"
	case archive && (!e.block.Known || !e.plan.irreversible):
		return "archives are asked for irreversible blocks only"
	case !a.Good && !(a.Lost && (e.class == Exec || e.class == Push)):
		return "its API does not answer"
	case archive && !a.Verified:
		return "it is not verified that it is the archive of its SHiP endpoint"
	case a.busy(e.now):
		return "it has said a moment ago that it is busy"
	case e.class == Push && len(e.s.api.PushServers) > 0 && !slices.Contains(e.s.api.PushServers, a.Server.Name):
		return "push_servers does not name it"
	case e.class != Info && e.class != Push && !a.lists(e.path):
		return "it does not serve this path"
	case archive && string(e.path) == blockPath:
		return "archives are not asked for get_block"
	case archive && !a.Blocks.Contains(e.block.Num):
		return "it does not have the block"
	case e.block.Known && a.head() < e.block.Num && e.plan.irreversible:
		return "its head is below the block"
	case e.plan.claimed && a.Earliest > e.block.Num:
		return "its block log begins above the block, which an archive has"
	case e.block.Known:
		return fmt.Sprintf("others have taken the %d attempts (max_attempts)", e.s.rules.MaxAttempts)
	}
	return "it is further behind than live_lag_blocks"
}
