package auth

import (
	"errors"
	"testing"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// TestPitfall26ProbingCostsNoBcryptAndTellsNothing: a key of an unknown id, one of a known id with another secret, and a malformed one are refused
// with the same message. The first two do not wait for bcrypt, before and after the key was first used, and each costs the same reads of the store.
func TestPitfall26ProbingCostsNoBcryptAndTellsNothing(t *testing.T) {
	for name, used := range map[string]bool{"before the key was used": false, "after it was used": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, policy.Principal{Name: "ada"})
			if used {
				b.mustVerify(t)
			}
			release := b.dear()
			probe := func(k Key) (said string, reads int64) {
				t.Helper()
				before := b.store.reads.Load()
				_, _, err := b.verify(with(k))
				f, ok := errors.AsType[*fault.Fault](err)
				if !ok || f.Kind != fault.InvalidAPIKey {
					t.Fatalf("the error is %v", err)
				}
				return f.Public + f.Code, b.store.reads.Load() - before
			}
			unknown, reads := probe(newKey(t))
			wrong, wrongReads := probe(sibling(t, b.key))
			if unknown != wrong {
				t.Errorf("an unknown id is told %q, and a known one %q", unknown, wrong)
			}
			if reads > 1 || wrongReads > 1 || !used && reads != wrongReads {
				t.Errorf("an unknown id costs %d reads, and a known one %d", reads, wrongReads)
			}
			release()
			b.mustVerify(t)
		})
	}
}
