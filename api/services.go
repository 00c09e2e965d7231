package api

import "github.com/quorate/quorate/internal/planner"

// Services are the services of quorate.v1: one implementation, which all transports serve.
type Services struct {
	Quota        *QuotaService
	Limits       *LimitService
	Overrides    *OverrideService
	Keys         *KeyService
	Events       *EventService
	Rates        *RateService
	Cluster      *ClusterService
	Accounts     *AccountService
	AccountAdmin *AccountAdminService
	Security     *SecurityService
	Members      *MemberService
	Backup       *BackupService
}

func newServices(s *service) *Services {
	return &Services{
		Quota: &QuotaService{service: s}, Limits: &LimitService{service: s}, Overrides: &OverrideService{service: s}, Keys: &KeyService{service: s},
		Events: &EventService{service: s}, Rates: &RateService{service: s, Planner: planner.New(s.node, s.noLimit, s.clock)}, Cluster: &ClusterService{service: s},
		Accounts: &AccountService{service: s}, AccountAdmin: &AccountAdminService{service: s}, Security: &SecurityService{service: s},
		Members: &MemberService{service: s}, Backup: &BackupService{service: s, stall: backupStall},
	}
}
