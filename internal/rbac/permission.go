package rbac

import (
	"math/bits"
	"slices"
)

// Permission is what somebody may do.
type Permission uint8

// The permissions.
const (
	Check                   Permission = iota // have requests decided; acquire and release
	Report                                    // refund, charge, reserve, settle, renew
	LimitsRead                                // limits, their versions, overrides
	LimitsWrite                               // change them
	KeysRead                                  // look at single keys
	KeysReset                                 // make a key full again
	RatesRead                                 // rates that the leaders report
	EventsRead                                // watch decisions as they are made
	AccountsUse                               // AccountService: apply operations, as an application does
	AccountsRead                              // AccountAdminService, as LUCI's server/quota has them
	AccountsList                              //
	AccountsWrite                             //
	PoliciesRead                              //
	PoliciesWrite                             //
	PoliciesOverrideVersion                   //
	PoliciesPurge                             //
	ClusterRead                               // nodes, ranges, plan
	ClusterAdmin                              // change members and placement, rotate the CA
	ClusterBackup                             // take a backup: it holds all that the cluster keeps, its keys too
	MetricsRead                               // metrics
	DebugRead                                 // profiles
	AccessRead                                // bindings and tokens
	AccessAdmin                               // change them
	permissionCount
)

var permissionNames = [permissionCount]string{
	"check", "report", "limits.read", "limits.write", "keys.read", "keys.reset", "rates.read", "events.read", "accounts.use",
	"quota.accounts.read", "quota.accounts.list", "quota.accounts.write",
	"quota.policies.read", "quota.policies.write", "quota.policies.overrideVersion", "quota.policies.purge",
	"cluster.read", "cluster.admin", "cluster.backup", "metrics.read", "debug.read", "access.read", "access.admin",
}

// String returns the name, such as limits.write.
func (p Permission) String() string {
	if p < permissionCount {
		return permissionNames[p]
	}
	return "unknown"
}

// ParsePermission returns the permission of a name.
func ParsePermission(name string) (Permission, bool) {
	i := slices.Index(permissionNames[:], name)
	return Permission(max(i, 0)), i >= 0
}

// PermissionNames returns the names of all permissions.
func PermissionNames() []string { return slices.Clone(permissionNames[:]) }

// Set is a set of permissions.
type Set uint32

// SetOf returns the set of some permissions.
func SetOf(list ...Permission) (s Set) {
	for _, p := range list {
		s |= 1 << p
	}
	return s
}

// Has says whether a permission is in the set.
func (s Set) Has(p Permission) bool { return s&(1<<p) != 0 }

// List returns what is in the set.
func (s Set) List() (out []Permission) {
	for ; s != 0; s &= s - 1 {
		out = append(out, Permission(bits.TrailingZeros32(uint32(s))))
	}
	return out
}

// Names returns the names of what is in the set.
func (s Set) Names() []string {
	list := s.List()
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.String()
	}
	return out
}

// everything is all permissions.
const everything Set = 1<<permissionCount - 1

// What may be given in one namespace, and in one realm. The rest is about the
// cluster, and is given everywhere or not at all.
var (
	inNamespace = SetOf(Check, Report, LimitsRead, LimitsWrite, KeysRead, KeysReset, RatesRead, EventsRead)
	inRealm     = SetOf(AccountsUse, AccountsRead, AccountsList, AccountsWrite, PoliciesRead, PoliciesWrite, PoliciesOverrideVersion, PoliciesPurge)
)

// Role is a set of permissions with a name.
type Role struct {
	Name, Summary string
	Permissions   Set
}

// The roles, from the least to the most.
var roles = []Role{
	{"checker", "services that ask before they serve", SetOf(Check)},
	{"reporter", "services that also reserve, refund and report what they used", SetOf(Check, Report)},
	{"accountant", "applications that keep durable quotas for their users", SetOf(AccountsUse)},
	{"limit-reader", "whoever wants to see limits, and how near they are", SetOf(LimitsRead, KeysRead, RatesRead, EventsRead)},
	{"limit-writer", "owners of limits", SetOf(LimitsRead, LimitsWrite, KeysRead, KeysReset, RatesRead, EventsRead)},
	{"planner", "capacity planners and monitoring", SetOf(LimitsRead, KeysRead, RatesRead, EventsRead, ClusterRead, MetricsRead)},
	{"operator", "whoever runs the cluster; not whoever says who may do what", SetOf(LimitsRead, KeysRead, RatesRead, EventsRead, ClusterRead, ClusterAdmin, ClusterBackup, MetricsRead, AccessRead)},
	{"admin", "everything", everything},
}

// Admin is the role that may do everything.
const Admin = "admin"

// Roles returns all roles, from the least to the most.
func Roles() []Role { return slices.Clone(roles) }

// FindRole returns the role of a name.
func FindRole(name string) (Role, bool) {
	i := slices.IndexFunc(roles, func(r Role) bool { return r.Name == name })
	if i < 0 {
		return Role{}, false
	}
	return roles[i], true
}

// RoleNames returns the names of all roles.
func RoleNames() []string {
	out := make([]string, len(roles))
	for i, r := range roles {
		out[i] = r.Name
	}
	return out
}
