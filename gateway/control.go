package gateway

import (
	"fmt"
	"os"
	"strings"

	"flotilla/gateway/admin"
	"flotilla/gateway/config"
)

// minToken is the shortest control token, in bytes.
const minToken = 16

// tokenVariables may hold the control token; the first one that is not blank
// counts, before what the configuration says.
var tokenVariables = [...]string{"FLOTILLA_CONTROL_TOKEN", "FLEET_ROUTER_CONTROL_TOKEN"}

// controlOf is the control API that a configuration asks for, nil when it has
// none. It reads the token's file.
func controlOf(cfg *config.Config) (*admin.Control, error) {
	if cfg.Admin == nil || cfg.Admin.Dashboard == nil || !cfg.Admin.Dashboard.Enabled {
		return nil, nil
	}
	d := cfg.Admin.Dashboard
	c := &admin.Control{Token: d.ControlToken, AllowedHosts: d.AllowedHosts}
	if d.ControlTokenFile != "" {
		text, err := os.ReadFile(d.ControlTokenFile)
		if err != nil {
			return nil, fmt.Errorf("dashboard: control_token_file cannot be read: %w", err)
		}
		c.Token = strings.TrimSpace(string(text))
		if c.Token == "" {
			return nil, fmt.Errorf("dashboard: control_token_file %s is empty; a token has at least %d bytes", d.ControlTokenFile, minToken)
		}
	}
	for _, name := range tokenVariables {
		if value := strings.TrimSpace(os.Getenv(name)); value != "" {
			c.Token = value
			break
		}
	}
	if c.Token != "" && len(c.Token) < minToken {
		return nil, fmt.Errorf("dashboard: the control token is shorter than %d bytes", minToken)
	}
	return c, nil
}
