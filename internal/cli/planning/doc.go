// Package planning implements the commands about the past and the future of limits: history and
// plan.
package planning
