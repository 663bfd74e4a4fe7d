package admin

import (
	"flotilla/chainapi"
	"flotilla/gateway/config"
)

// The chain_api entry of spec "observability" section 2. What is not known is
// null.
type (
	coverageChainAPI struct {
		Listen string              `json:"listen"`
		Live   []coverageLiveAPI   `json:"live"`
		Frozen []coverageFrozenAPI `json:"frozen"`
	}
	coverageLiveAPI struct {
		Server   string  `json:"server"`
		Up       bool    `json:"up"`
		Head     *uint32 `json:"head"`
		LIB      *uint32 `json:"lib"`
		Earliest *uint32 `json:"earliest"`
		Version  *string `json:"version"`
	}
	coverageFrozenAPI struct {
		Server   string         `json:"server"`
		Up       bool           `json:"up"`
		Verified bool           `json:"verified"`
		Blocks   *coverageRange `json:"blocks"`
		GetBlock *string        `json:"get_block"`
	}
)

func describeAPI(p *chainapi.Port) *coverageChainAPI {
	d := &coverageChainAPI{Listen: p.Config().Address, Live: []coverageLiveAPI{}, Frozen: []coverageFrozenAPI{}}
	v := p.View()
	for i := range v.APIs {
		a := &v.APIs[i]
		if a.Server.Role == config.Live {
			d.Live = append(d.Live, coverageLiveAPI{
				Server: a.Server.Name, Up: a.Up(), Head: known(a.Head), LIB: known(a.LIB),
				Earliest: known(a.Earliest), Version: known(a.Version),
			})
			continue
		}
		entry := coverageFrozenAPI{Server: a.Server.Name, Up: a.Up(), Verified: a.Verified}
		if a.Described {
			entry.Blocks = &coverageRange{a.Blocks.Begin, a.Blocks.End}
			entry.GetBlock = known(a.GetBlock)
		}
		d.Frozen = append(d.Frozen, entry)
	}
	return d
}

// known is nil for the zero value, which stands for what is not known.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
