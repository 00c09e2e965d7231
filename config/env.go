package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/suggest"
)

// envPrefix begins the name of each variable that is a setting.
const envPrefix = "QUORATE_"

// foreignVariables matches variables with the prefix that are no settings: QUORATE_ADDR,
// QUORATE_TOKEN, QUORATE_USER and QUORATE_TLS_DIR belong to the client commands, and Kubernetes sets
// the others in every container, for services whose name begins with quorate.
var foreignVariables = regexp.MustCompile(`^QUORATE_(ADDR|TOKEN|USER|TLS_DIR|([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?))$`)

func foreign(variable, value string) bool {
	service := strings.HasSuffix(variable, "_PORT") && strings.Contains(value, "://") // QUORATE_PORT=tcp://10.0.0.1:7411
	return service || foreignVariables.MatchString(variable)
}

// Variables returns the names of all environment variables that LoadNode
// reads, in the order of the settings: QUORATE_ and the path of the setting.
func Variables() []string {
	var n Node
	var out []string
	for _, s := range n.settings() {
		out = append(out, s.variable())
	}
	return out
}

func (s setting) variable() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.path, ".", "_"))
}

// readEnviron reads the environment's layer from a list of name=value.
func (s *nodeSettings) readEnviron(environ []string) {
	known := map[string]setting{}
	for _, one := range s.settings() {
		known[one.variable()] = one
	}
	for _, pair := range slices.Sorted(slices.Values(environ)) {
		variable, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(variable, envPrefix) {
			continue
		}
		one, ok := known[variable]
		if !ok {
			if !foreign(variable, value) {
				s.unknownVariable(variable)
			}
			continue
		}
		err := one.set(value)
		if err != nil {
			s.env.fault(0, 0, variable, "%s", err)
		}
		s.given[one.path] = origin{variable: variable, bad: err != nil}
	}
}

// unknownVariable reports a misspelt variable. It never shows the value, which may be a secret.
func (s *nodeSettings) unknownVariable(variable string) {
	path := join("", variable)
	if near := suggest.Word(variable, Variables()); near != "" {
		s.env.fault(0, 0, path, "unknown variable; did you mean %s?", near)
		return
	}
	s.env.fault(0, 0, path, "unknown variable; must be one of %s", strings.Join(Variables(), ", "))
}
