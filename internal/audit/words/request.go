package words

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/rbac"
)

// fields are the values in the summary of a request: path, such as binding.role, to value. Of a
// list they have the first item, and the number of items at the path with "#".
type fields map[string]string

// The parts of a summary: the name of a field, a value without quotes, the start of a list, and what is
// not shown.
var (
	fieldName = regexp.MustCompile(`^[a-z0-9_]+=`)
	bareValue = regexp.MustCompile(`^[^ ,{}\[\]"]+`)
	listStart = regexp.MustCompile(`^\((\d+)\)\[`)
	notShown  = regexp.MustCompile(`^(\[secret\]|\(\d+( bytes)?\)|\{\.\.\.\})`)
)

// fieldsOf parses a summary of package api. It stops where a summary is cut. Texts in it are
// quoted, so that no caller can forge a field.
func fieldsOf(summary string) fields {
	f := fields{}
	f.message("", summary)
	return f
}

// message reads the fields of a message and returns what follows them.
func (f fields) message(path, s string) (rest string, ok bool) {
	for {
		name := fieldName.FindString(s)
		if name == "" {
			return s, false
		}
		if s, ok = f.value(path+strings.TrimSuffix(name, "="), s[len(name):]); !ok || !strings.HasPrefix(s, " ") {
			return s, ok
		}
		s = s[1:]
	}
}

// value reads one value and returns what follows it.
func (f fields) value(path, s string) (rest string, ok bool) {
	if m := listStart.FindStringSubmatch(s); m != nil {
		f[path+"#"] = m[1]
		if s, ok = f.value(path, s[len(m[0]):]); !ok {
			return s, false
		}
		for strings.HasPrefix(s, ", ") { // read to find the end of the list, and left out
			if s, ok = (fields{}).value("", s[2:]); !ok {
				return s, false
			}
		}
		return strings.CutPrefix(s, "]")
	}
	if inner, is := strings.CutPrefix(s, "{"); is {
		if s, ok = f.message(path+".", inner); !ok && !strings.HasPrefix(s, "}") { // it may have no fields
			return s, false
		}
		return strings.CutPrefix(s, "}")
	}
	if text, err := strconv.QuotedPrefix(s); err == nil {
		f[path], _ = strconv.Unquote(text)
		return s[len(text):], true
	}
	if n := len(notShown.FindString(s)); n > 0 {
		return s[n:], true
	}
	bare := bareValue.FindString(s)
	f[path] = bare
	return s[len(bare):], bare != ""
}

// show returns a value for people.
func (f fields) show(path string) string { return phrase.Show(f[path]) }

// several returns one if a list has one item, else the number of items and the noun.
func (f fields) several(list, one, noun string) string {
	if n, _ := strconv.Atoi(f[list+"#"]); n > 1 {
		return phrase.Plural(n, noun)
	}
	return one
}

// nodeVerbs describes each change of a node; %s is its name.
var nodeVerbs = map[string]string{
	"NODE_CHANGE_DRAIN": "Drain %s", "NODE_CHANGE_ACTIVATE": "Activate %s", "NODE_CHANGE_LEAVE": "Let %s leave", "NODE_CHANGE_REMOVE": "Remove %s",
}

// object describes a call with the things that it is about: what it needs of the request, and the
// words.
type object struct {
	need  []string
	words func(f fields) string
}

// objects has the calls whose request names what they are about. Each begins with a verb of
// donePast.
var objects = map[string]object{
	"SecurityService/SetBinding": {[]string{"binding.role", "binding.identity"}, func(f fields) string {
		return "Grant " + f.show("binding.role") + " to " + f.show("binding.identity") + ", " + Where(f.show("binding.scope"))
	}},
	"SecurityService/DeleteBinding": {[]string{"role", "identity"}, func(f fields) string {
		return "Revoke " + f.show("role") + " of " + f.show("identity") + ", " + Where(f.show("scope"))
	}},
	"SecurityService/CreateToken":    {[]string{"name"}, func(f fields) string { return "Create a token for token:" + f.show("name") }},
	"SecurityService/RevokeToken":    {[]string{"id"}, func(f fields) string { return "Revoke the token " + f.show("id") }},
	"ClusterService/RevokeJoinToken": {[]string{"id"}, func(f fields) string { return "Revoke the join token " + f.show("id") }},
	"ClusterService/Join":            {[]string{"node"}, func(f fields) string { return "Let node " + f.show("node") + " join" }},
	"ClusterService/IssueCertificate": {[]string{"name"}, func(f fields) string {
		return "Issue a certificate to client:" + f.show("name")
	}},
	"ClusterService/ChangeNode": {[]string{"node", "change"}, func(f fields) string {
		return fmt.Sprintf(nodeVerbs[f["change"]], f.show("node"))
	}},
	"ClusterService/RotateAuthority": {nil, func(f fields) string {
		switch {
		case f["ask"] == "true":
			return "Read the state of the certificate authority"
		case f["finish"] == "true":
			return "End the trust in the earlier certificate authority"
		}
		return "Rotate the certificate authority"
	}},
	"ClusterService/TransferLeadership": {nil, func(f fields) string {
		words := "Transfer the leadership of "
		if f["ranges#"] == "" {
			words += "all ranges"
		} else {
			words += f.several("ranges", "range "+f["ranges"], "range")
		}
		if f["from"] != "" {
			words += " from " + f.show("from")
		}
		if f["to"] != "" {
			words += " to " + f.show("to")
		}
		return words
	}},
	"KeyService/ResetKey": {[]string{"namespace", "limit"}, func(f fields) string { return "Reset " + f.key("") }},
	"OverrideService/SetOverrides": {[]string{"overrides.namespace", "overrides.limit"}, func(f fields) string {
		return "Set " + f.several("overrides", "the override of "+f.key("overrides."), "override")
	}},
	"OverrideService/DeleteOverrides": {[]string{"keys.namespace", "keys.limit"}, func(f fields) string {
		return "Clear " + f.several("keys", "the override of "+f.key("keys."), "override")
	}},
	"LimitService/ApplyLimits":    {[]string{"source"}, func(f fields) string { return "Change limits, from " + f.show("source") }},
	"LimitService/RollbackLimits": {[]string{"version"}, func(f fields) string { return "Roll limits back to version " + f.show("version") }},
	"LimitService/DeleteLimits": {[]string{"limits.namespace", "limits.limit"}, func(f fields) string {
		return "Delete " + f.several("limits", "the limit "+f.show("limits.namespace")+"/"+f.show("limits.limit"), "limit")
	}},
	"AccountAdminService/ApplyOps": {[]string{"ops.account_id.app_id", "ops.account_id.resource_type"}, func(f fields) string {
		one := "the account " + f.account("ops.account_id.")
		if f["ops.delta"] != "" && f["ops.relative_to"] == "" {
			one += " by " + f["ops.delta"]
		}
		return "Change " + f.several("ops", one, "account")
	}},
	"AccountAdminService/WritePolicies": {[]string{"app_id", "realm"}, func(f fields) string {
		return "Load policies" + f.version("") + " of " + f.show("app_id") + "~" + f.show("realm")
	}},
	"AccountAdminService/PurgePolicies": {[]string{"id.app_id", "id.realm"}, func(f fields) string {
		return "Remove policies" + f.version("id.") + " of " + f.show("id.app_id") + "~" + f.show("id.realm")
	}},
}

// account names an account in one word, as the command line does.
func (f fields) account(prefix string) string {
	var parts []string
	for _, name := range []string{"app_id", "realm", "identity", "namespace", "name", "resource_type"} {
		parts = append(parts, f[prefix+name])
	}
	return phrase.Show(strings.Join(parts, "~"))
}

// version names the version of policies; without one it is a hash of them.
func (f fields) version(prefix string) string {
	if f[prefix+"version"] == "" {
		return ""
	}
	return " " + f.show(prefix+"version")
}

// key names a key and its limit, which are in the message at prefix.
func (f fields) key(prefix string) string {
	limit := f.show(prefix+"namespace") + "/" + f.show(prefix+"limit")
	if f[prefix+"key"] == "" {
		return "the key of " + limit
	}
	return "the key " + f.show(prefix+"key") + " of " + limit
}

// request describes a call by what its request names. It returns "" for a request that lacks it, such
// as one that was refused for that.
func request(call string, f fields) string {
	o, ok := objects[call]
	if !ok || len(f) == 0 || slices.ContainsFunc(o.need, func(path string) bool { return f[path] == "" }) || call == "ClusterService/ChangeNode" && nodeVerbs[f["change"]] == "" {
		return ""
	}
	return o.words(f)
}

// Where says where a binding applies.
func Where(scope string) string {
	if scope == "" || scope == string(rbac.Everywhere) {
		return "everywhere"
	}
	return "in " + scope
}
