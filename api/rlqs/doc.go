// Package rlqs serves Envoy's Rate Limit Quota Service, RLQS v3.
package rlqs
