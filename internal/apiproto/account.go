package apiproto

import (
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
)

// AccountID converts an account's id.
func AccountID(id account.ID) *quoratev1.AccountID {
	return &quoratev1.AccountID{AppId: id.App, Realm: id.Realm, Identity: id.Identity, Namespace: id.Namespace, Name: id.Name, ResourceType: id.Resource}
}

// ConfigID converts a policy config's id.
func ConfigID(id account.ConfigID) *quoratev1.PolicyConfigID {
	return &quoratev1.PolicyConfigID{AppId: id.App, Realm: id.Realm, Version: id.Version}
}

// PolicyKey converts the key of a policy within its config.
func PolicyKey(k account.PolicyKey) *quoratev1.PolicyKey {
	return &quoratev1.PolicyKey{Namespace: k.Namespace, Name: k.Name, ResourceType: k.Resource}
}

// PolicyRef converts a reference to a policy of a config; nil stays nil.
func PolicyRef(r *account.PolicyRef) *quoratev1.PolicyID {
	if r == nil {
		return nil
	}
	return &quoratev1.PolicyID{Config: ConfigID(r.Config), Key: PolicyKey(r.Key)}
}
