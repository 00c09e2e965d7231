// Package load sends traffic to a cluster (load, replay) and compares the admitted requests with an
// ideal limiter. With replay --virtual it plays an access log in the simulator instead.
package load
