package api

import (
	"context"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/planner"
	"github.com/quorate/quorate/internal/quota"
)

// Service bundles the single implementation of all quorate.v1 services. A node has one, which every
// transport serves: its bounds are those of the node.
type Service struct {
	*core

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

// Parts of a node, one per service.
type (
	quotaNode interface {
		HeldChecker
		Decider
		Check(k quota.Key, cost int64) quota.Decision
		Limits() *quota.Limits
	}
	limitNode interface {
		LimitLife
		Limits() *quota.Limits
	}
	overrideNode interface {
		OverrideStore
		Limits() *quota.Limits
	}
	keyNode interface {
		Keys
		Limits() *quota.Limits
		Override(k quota.Key) *quota.Override
	}
	rateNode interface {
		TopRates(ctx context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error)
		Limits() *quota.Limits
	}
	clusterNode interface {
		Operator
		Status() *quoratev1.GetStatusResponse
	}
	accountNode interface {
		Accounts
		PolicyStore
	}
)

// New returns the services of a node.
func New(n Node, o Options) *Service {
	s := newCore(n, o)
	accounts := &accountCalls{core: s, node: n}
	return &Service{
		core: s, Quota: &QuotaService{core: s, node: n}, Limits: &LimitService{core: s, node: n}, Overrides: &OverrideService{core: s, node: n},
		Keys: &KeyService{core: s, node: n}, Events: &EventService{core: s, node: n},
		Rates: &RateService{core: s, node: n, Planner: planner.New(n, s.noLimit, func() time.Time { return s.Clock() })}, Cluster: &ClusterService{core: s, node: n},
		Accounts: &AccountService{accountCalls: accounts}, AccountAdmin: &AccountAdminService{accountCalls: accounts},
		Security: &SecurityService{core: s, node: n, log: n}, Members: &MemberService{core: s, node: n}, Backup: &BackupService{core: s, Node: n, Stall: BackupStall},
	}
}

// Status returns the cluster as the node sees it.
func (s *Service) Status() *quoratev1.GetStatusResponse { return s.node.Status() }

// EndStreams ends the streams of events and rates of all transports, and those that begin later.
func (s *Service) EndStreams() { s.endStreams() }
