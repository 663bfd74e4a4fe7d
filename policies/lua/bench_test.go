package lua_test

import (
	"fmt"
	"testing"

	"flotilla/policies"
)

// benchmarks are scripts of the kinds that operators write.
var benchmarks = map[string]string{
	"as they are": returning("return servers"),
	"rack": `
function select(request, servers)
  local picked = {}
  for _, s in ipairs(servers) do
    if not (s.labels.size == "small" and request.start_block < 1000000) then picked[#picked + 1] = s end
  end
  table.sort(picked, function(a, b) return a.labels.rack == "r1" and b.labels.rack ~= "r1" end)
  return picked
end`,
	"filter": `
function select(request, servers)
  local picked = {}
  for _, s in ipairs(servers) do
    if s.lag < 20 and s.sessions < 500 then picked[#picked + 1] = s end
  end
  return picked
end`,
	"sorted": returning(`return sort_by(servers, "lag")`),
	"score":  "function score(request, s) return -s.sessions / s.weight end",
}

// BenchmarkOrder is one call of a script.
func BenchmarkOrder(b *testing.B) {
	for name, script := range benchmarks {
		for _, n := range []int{8, 64, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				p := load(b, script, nil)
				f := fleet(n)
				work := make([]*policies.Server, n)
				r := request()
				b.ReportAllocs()
				for b.Loop() {
					copy(work, f)
					p.Order(r, work, 1)
				}
				if got := failures(p); got != "" {
					b.Errorf("the failures are %s: %s", got, p.Report().LastFailure)
				}
			})
		}
	}
}
