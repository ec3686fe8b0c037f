package event

import "bardo.money/gateway/policy"

// Emit is emit for tests, whose events have no kind.
func (s *Sink) Emit(name string, account policy.Account, fields any) { s.emit(name, account, fields) }
