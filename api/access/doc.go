// Package access says who may administer durable quotas: permissions in realms,
// as LUCI's server/quota has them.
//
// A call on AccountAdminService is about something that belongs to an app and to
// a realm. It is allowed if the caller has the permission for it in that realm,
// or in "@internal:APP", the realm of whoever runs the application. The second
// ignores that an account's resource is absolute; the first does not.
//
// Who the caller is says an [Identifier]; what callers have been given, [Grants].
// This package only puts the two together. It keeps no state.
package access
