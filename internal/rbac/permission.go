package rbac

import (
	"math/bits"
	"slices"
)

// Permission is the right to a kind of call.
type Permission uint8

// The permissions.
const (
	Check                   Permission = iota // decide requests; acquire and release
	Report                                    // refund, charge, reserve, settle, renew
	LimitsRead                                // limits, their versions, overrides
	LimitsWrite                               // change limits and overrides
	KeysRead                                  // read single keys
	KeysReset                                 // refill a key
	RatesRead                                 // read rates reported by leaders
	EventsRead                                // watch decisions
	AccountsUse                               // AccountService: apply operations, as an application does
	AccountsRead                              // AccountAdminService, with the permissions of LUCI's server/quota
	AccountsList                              //
	AccountsWrite                             //
	PoliciesRead                              //
	PoliciesWrite                             //
	PoliciesOverrideVersion                   //
	PoliciesPurge                             //
	ClusterRead                               // nodes, ranges, plan
	ClusterAdmin                              // change members and placement, rotate the CA
	ClusterBackup                             // take a backup, which contains everything that the cluster stores, including its keys
	MetricsRead                               // metrics
	DebugRead                                 // profiles
	AccessRead                                // read bindings and tokens
	AccessAdmin                               // change bindings and tokens
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

// ParsePermission returns the permission with the name.
func ParsePermission(name string) (Permission, bool) {
	i := slices.Index(permissionNames[:], name)
	return Permission(max(i, 0)), i >= 0
}

// PermissionNames returns the names of all permissions.
func PermissionNames() []string { return slices.Clone(permissionNames[:]) }

// Set is a set of permissions.
type Set uint32

// SetOf returns the set of the given permissions.
func SetOf(list ...Permission) (s Set) {
	for _, p := range list {
		s |= 1 << p
	}
	return s
}

// Has reports whether the set contains a permission.
func (s Set) Has(p Permission) bool { return s&(1<<p) != 0 }

// List returns the permissions in the set, in their order.
func (s Set) List() (out []Permission) {
	for ; s != 0; s &= s - 1 {
		out = append(out, Permission(bits.TrailingZeros32(uint32(s))))
	}
	return out
}

// Names returns the names of the permissions in the set.
func (s Set) Names() []string {
	list := s.List()
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.String()
	}
	return out
}

// everything is the set of all permissions.
const everything Set = 1<<permissionCount - 1

// inNamespace and inRealm are the permissions that can be granted in one namespace or realm. All
// others concern the cluster and can only be granted everywhere.
var (
	inNamespace = SetOf(Check, Report, LimitsRead, LimitsWrite, KeysRead, KeysReset, RatesRead, EventsRead)
	inRealm     = SetOf(AccountsUse, AccountsRead, AccountsList, AccountsWrite, PoliciesRead, PoliciesWrite, PoliciesOverrideVersion, PoliciesPurge)
)

// Role is a named set of permissions.
type Role struct {
	Name, Summary string
	Permissions   Set
}

// roles is ordered from the fewest permissions to the most.
var roles = []Role{
	{"checker", "services that ask before they serve", SetOf(Check)},
	{"reporter", "services that also reserve, refund and report what they used", SetOf(Check, Report)},
	{"accountant", "applications that keep durable quotas for their users", SetOf(AccountsUse)},
	{"limit-reader", "reads limits and usage", SetOf(LimitsRead, KeysRead, RatesRead, EventsRead)},
	{"limit-writer", "owners of limits", SetOf(LimitsRead, LimitsWrite, KeysRead, KeysReset, RatesRead, EventsRead)},
	{"planner", "capacity planners and monitoring", SetOf(LimitsRead, KeysRead, RatesRead, EventsRead, ClusterRead, MetricsRead)},
	{"operator", "runs the cluster; cannot change permissions", SetOf(LimitsRead, KeysRead, RatesRead, EventsRead, ClusterRead, ClusterAdmin, ClusterBackup, MetricsRead, AccessRead)},
	{"admin", "everything", everything},
}

// Admin is the role with all permissions.
const Admin = "admin"

// Roles returns all roles, from the fewest permissions to the most.
func Roles() []Role { return slices.Clone(roles) }

// FindRole returns the role with the name.
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
