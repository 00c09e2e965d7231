package rest

import (
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/rbac"
)

func addTokenChange(t *rbac.Token) *raftlogv1.ChangeSecurity {
	return &raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_AddToken{AddToken: rbac.EncodeToken(t)}}
}

func setBindingChange(b *rbac.Binding) *raftlogv1.ChangeSecurity {
	return &raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_SetBinding{SetBinding: rbac.EncodeBinding(b)}}
}
