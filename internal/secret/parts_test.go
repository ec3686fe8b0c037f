package secret_test

import (
	"testing"

	"bardo.money/gateway/internal/secret"
)

// TestTheSecretWithinACredentialIsRemoved, as servers quote it without the rest.
func TestTheSecretWithinACredentialIsRemoved(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, credential, text, want string }{
		{"a path", "https://node.example/v3/0123456789abcdef0123", "404 Not Found: <pre>Cannot POST /v3/0123456789abcdef0123</pre>", "404 Not Found: <pre>Cannot POST /v3/***</pre>"},
		{"an address in another spelling", "HTTPS://node.example/v3/0123456789abcdef0123/", `Post "https://node.example/v3/0123456789abcdef0123/": EOF`, `Post "https://node.example/v3/***/": EOF`},
		{"a query", "https://node.example/rpc?key=Xy7-secret", "the key Xy7-secret is not known", "the key *** is not known"},
		{"an escaped query", "https://node.example/rpc?key=a%2Bbcdefgh", "the key a+bcdefgh, sent as a%2Bbcdefgh", "the key ***, sent as ***"},
		{"a password", "wss://user:Xy7-secret@node.example/", "user:Xy7-secret", "user:***"},
		{"a scheme", "Bearer Xy7-secret", `401 Unauthorized: the token "Xy7-secret" has expired`, `401 Unauthorized: the token "***" has expired`},
		{"the whole", "https://node.example/v3/0123456789abcdef0123", "at https://node.example/v3/0123456789abcdef0123.", "at ***."},
		{"names in a path", "https://node.example/api/webhooks-of-operators/base-mainnet", "/api/webhooks-of-operators/base-mainnet", "/api/webhooks-of-operators/base-mainnet"},
		{"an access key", "AKIDEXAMPLE wJalrXUtnFEMI/K7MDENG IQoJb3JpZ2luX2VjEXAMPLE", "token:IQoJb3JpZ2luX2VjEXAMPLE secret:wJalrXUtnFEMI/K7MDENG", "token:*** secret:***"},
		{"words", "correct horse battery", "the battery of a horse", "the battery of a horse"},
	} {
		r := secret.NewRedactor(secret.New(row.credential))
		if got := r.String(row.text); got != row.want {
			t.Errorf("%s: %q", row.name, got)
		}
		if got := r.With(secret.New("another-key")).String(row.text); got != row.want {
			t.Errorf("%s, with another: %q", row.name, got)
		}
	}
}
