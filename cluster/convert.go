package cluster

import "github.com/quorate/quorate/internal/quota"

func key(ns, limit, k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: ns, Limit: limit}, Key: k}
}
