package fake

import "bardo.money/gateway/e2e/fake/check"

// Unsigned is the Signer of a server of Anthropic's format whose models sign nothing: its thinking has empty signatures,
// and it takes no others.
const Unsigned = check.Unsigned

// Sign is the signature of a thinking block by providers without a signer of their own.
func Sign(thinking string) string { return check.Signer("").Sign(thinking) }

// Seal is the signature by such a provider of a block whose thinking the caller asked to omit: the signature carries it then.
func Seal(thinking string) string { return check.Signer("").Seal(thinking) }

// Sign is the signature of a thinking block by this provider.
func (s *Server) Sign(thinking string) string { return check.Signer(s.cfg.Signer).Sign(thinking) }

// GeminiSignature is the signature that a fake of Gemini's format gives an answer that began with a thought, and takes back.
func GeminiSignature(thought string) string { return check.GeminiSignature(thought) }
