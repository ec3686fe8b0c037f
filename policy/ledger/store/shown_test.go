package store_test

import (
	"testing"

	"bardo.money/gateway/policy/ledger/store"
)

func TestAStoreIsShownWithoutItsPasswords(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"sqlite:///var/bardo.db":                                             "sqlite:///var/bardo.db",
		"postgres://user:secret@db.example/bardo":                            "postgres://user:xxxxx@db.example/bardo",
		"postgres://user@db.example/bardo?password=secret&sslpassword=other": "postgres://user@db.example/bardo",
		"postgres://user:secret@db.example:port/bardo":                       "in PostgreSQL",
	} {
		if got := store.Redacted(name); got != want {
			t.Errorf("%s is shown as %s", name, got)
		}
	}
}
