package console

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/phrase"
)

// auditFields are the values in the summary of a request: path, such as binding.role, to value. Of a
// list they have the first item, and the number of items at the path with "#".
type auditFields map[string]string

// The parts of a summary: the name of a field, a value without quotes, the start of a list, and what is
// not shown.
var (
	auditName   = regexp.MustCompile(`^[a-z0-9_]+=`)
	auditBare   = regexp.MustCompile(`^[^ ,{}\[\]"]+`)
	auditList   = regexp.MustCompile(`^\((\d+)\)\[`)
	auditHidden = regexp.MustCompile(`^(\[secret\]|\(\d+( bytes)?\)|\{\.\.\.\})`)
)

// auditFieldsOf parses a summary of package api. It stops where a summary is cut. Texts in it are
// quoted, so that no caller can forge a field.
func auditFieldsOf(summary string) auditFields {
	f := auditFields{}
	f.message("", summary)
	return f
}

// message reads the fields of a message and returns what follows them.
func (f auditFields) message(path, s string) (rest string, ok bool) {
	for {
		name := auditName.FindString(s)
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
func (f auditFields) value(path, s string) (rest string, ok bool) {
	if m := auditList.FindStringSubmatch(s); m != nil {
		f[path+"#"] = m[1]
		if s, ok = f.value(path, s[len(m[0]):]); !ok {
			return s, false
		}
		for strings.HasPrefix(s, ", ") { // read to find the end of the list, and left out
			if s, ok = (auditFields{}).value("", s[2:]); !ok {
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
	if n := len(auditHidden.FindString(s)); n > 0 {
		return s[n:], true
	}
	bare := auditBare.FindString(s)
	f[path] = bare
	return s[len(bare):], bare != ""
}

// show returns a value for people.
func (f auditFields) show(path string) string { return phrase.Show(f[path]) }

// several returns one if a list has one item, else the number of items and the noun.
func (f auditFields) several(list, one, noun string) string {
	if n, _ := strconv.Atoi(f[list+"#"]); n > 1 {
		return phrase.Plural(n, noun)
	}
	return one
}

// nodeVerbs describes each change of a node; %s is its name.
var nodeVerbs = map[string]string{
	"NODE_CHANGE_DRAIN": "Drain %s", "NODE_CHANGE_ACTIVATE": "Activate %s", "NODE_CHANGE_LEAVE": "Let %s leave", "NODE_CHANGE_REMOVE": "Remove %s",
}

// auditObject describes a call with the things that it is about: what it needs of the request, and the
// words.
type auditObject struct {
	need  []string
	words func(f auditFields) string
}

// auditObjects has the calls whose request names what they are about. Each begins with a verb of
// donePast.
var auditObjects = map[string]auditObject{
	"SecurityService/SetBinding": {[]string{"binding.role", "binding.identity"}, func(f auditFields) string {
		return "Grant " + f.show("binding.role") + " to " + f.show("binding.identity") + ", " + where(f.show("binding.scope"))
	}},
	"SecurityService/DeleteBinding": {[]string{"role", "identity"}, func(f auditFields) string {
		return "Revoke " + f.show("role") + " of " + f.show("identity") + ", " + where(f.show("scope"))
	}},
	"SecurityService/CreateToken":    {[]string{"name"}, func(f auditFields) string { return "Create a token for token:" + f.show("name") }},
	"SecurityService/RevokeToken":    {[]string{"id"}, func(f auditFields) string { return "Revoke the token " + f.show("id") }},
	"ClusterService/RevokeJoinToken": {[]string{"id"}, func(f auditFields) string { return "Revoke the join token " + f.show("id") }},
	"ClusterService/Join":            {[]string{"node"}, func(f auditFields) string { return "Let node " + f.show("node") + " join" }},
	"ClusterService/IssueCertificate": {[]string{"name"}, func(f auditFields) string {
		return "Issue a certificate to client:" + f.show("name")
	}},
	"ClusterService/ChangeNode": {[]string{"node", "change"}, func(f auditFields) string {
		return fmt.Sprintf(nodeVerbs[f["change"]], f.show("node"))
	}},
	"ClusterService/TransferLeadership": {nil, func(f auditFields) string {
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
	"KeyService/ResetKey": {[]string{"namespace", "limit"}, func(f auditFields) string { return "Reset " + f.key("") }},
	"OverrideService/SetOverrides": {[]string{"overrides.namespace", "overrides.limit"}, func(f auditFields) string {
		return "Set " + f.several("overrides", "the override of "+f.key("overrides."), "override")
	}},
	"OverrideService/DeleteOverrides": {[]string{"keys.namespace", "keys.limit"}, func(f auditFields) string {
		return "Clear " + f.several("keys", "the override of "+f.key("keys."), "override")
	}},
	"LimitService/ApplyLimits":    {[]string{"source"}, func(f auditFields) string { return "Change limits, from " + f.show("source") }},
	"LimitService/RollbackLimits": {[]string{"version"}, func(f auditFields) string { return "Roll limits back to version " + f.show("version") }},
	"LimitService/DeleteLimits": {[]string{"limits.namespace", "limits.limit"}, func(f auditFields) string {
		return "Delete " + f.several("limits", "the limit "+f.show("limits.namespace")+"/"+f.show("limits.limit"), "limit")
	}},
	"AccountAdminService/ApplyOps": {[]string{"ops.account_id.app_id", "ops.account_id.resource_type"}, func(f auditFields) string {
		one := "the account " + f.account("ops.account_id.")
		if f["ops.delta"] != "" && f["ops.relative_to"] == "" {
			one += " by " + f["ops.delta"]
		}
		return "Change " + f.several("ops", one, "account")
	}},
	"AccountAdminService/WritePolicies": {[]string{"app_id", "realm"}, func(f auditFields) string {
		return "Load policies" + f.version("") + " of " + f.show("app_id") + "~" + f.show("realm")
	}},
	"AccountAdminService/PurgePolicies": {[]string{"id.app_id", "id.realm"}, func(f auditFields) string {
		return "Remove policies" + f.version("id.") + " of " + f.show("id.app_id") + "~" + f.show("id.realm")
	}},
}

// account names an account in one word, as the command line does.
func (f auditFields) account(prefix string) string {
	var parts []string
	for _, name := range []string{"app_id", "realm", "identity", "namespace", "name", "resource_type"} {
		parts = append(parts, f[prefix+name])
	}
	return phrase.Show(strings.Join(parts, "~"))
}

// version names the version of policies; without one it is a hash of them.
func (f auditFields) version(prefix string) string {
	if f[prefix+"version"] == "" {
		return ""
	}
	return " " + f.show(prefix+"version")
}

// key names a key and its limit, which are in the message at prefix.
func (f auditFields) key(prefix string) string {
	limit := f.show(prefix+"namespace") + "/" + f.show(prefix+"limit")
	if f[prefix+"key"] == "" {
		return "the key of " + limit
	}
	return "the key " + f.show(prefix+"key") + " of " + limit
}

// auditWords describes a call by what its request names. It returns "" for a request that lacks it, such
// as one that was refused for that.
func auditWords(call string, f auditFields) string {
	o, ok := auditObjects[call]
	if !ok || len(f) == 0 || slices.ContainsFunc(o.need, func(path string) bool { return f[path] == "" }) || call == "ClusterService/ChangeNode" && nodeVerbs[f["change"]] == "" {
		return ""
	}
	return o.words(f)
}
