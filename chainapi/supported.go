package chainapi

import (
	"encoding/json"
	"slices"

	"flotilla/gateway/config"
)

// supported is the answer to get_supported_apis: the paths that a usable API
// lists and that this port serves, sorted.
func (p *Port) supported() []byte {
	s, v := p.settings.Load(), p.View()
	list := []string{}
	for i := range v.APIs {
		a := &v.APIs[i]
		if !a.usable() {
			continue
		}
		for path := range a.Paths {
			class := classOf([]byte(path))
			if !s.allows(class) || a.Server.Role == config.Frozen && (class != Block || path == blockPath) {
				continue
			}
			list = append(list, path)
		}
	}
	slices.Sort(list)
	body, err := json.Marshal(map[string][]string{"apis": slices.Compact(list)})
	if err != nil { // strings always can be written
		return []byte(`{"apis":[]}`)
	}
	return body
}
