// Package access authorizes the administration of durable quotas: permissions in realms, as in
// LUCI's server/quota.
//
// The subject of a call on AccountAdminService belongs to an app and to a realm. The call is
// allowed if the caller has the permission in that realm or in "@internal:APP", the realm of the
// application's operators. The internal realm also covers absolute resources; the subject's realm
// does not.
//
// [Grants] hold the permissions of callers. This package keeps no state.
package access
