package e2e

import (
	"net/http"
	"strconv"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// inEachFormat are a generation in each format that clients have, in one piece and as a stream.
func inEachFormat(model string) map[string]gateway.Call {
	calls := map[string]gateway.Call{}
	for _, stream := range []bool{false, true} {
		name := ", stream=" + strconv.FormatBool(stream)
		for _, a := range eachFormat {
			a.model, a.stream = model, stream
			calls[string(a.dialect)+name] = a.call()
		}
		calls["responses"+name] = gateway.Call{Path: "/v1/responses", Body: `{"model":"` + model + `","input":"hi","stream":` + strconv.FormatBool(stream) + `}`}
		calls["completions"+name] = gateway.Call{Path: "/v1/completions", Body: `{"model":"` + model + `","prompt":"hi","max_tokens":100,"stream":` + strconv.FormatBool(stream) + `}`}
	}
	return calls
}

// remains checks that an answer says once how much of the hour's allowance is left; "" for not at all.
func remains(t testing.TB, got gateway.Answer, status int, left string) {
	t.Helper()
	said := got.Header.Values("X-Remaining-Tokens")
	if got.Status != status || left == "" && len(said) > 0 || left != "" && (len(said) != 1 || said[0] != left || got.Header.Get("X-Ratelimit-Remaining-Tokens") != left) {
		t.Errorf("%d, X-Remaining-Tokens %q, want %d and %q: %s", got.Status, said, status, left, got.Body)
	}
}

// TestX07RefusalsSayWhatIsLeftOfTheAllowance: refusals of any kind, whenever they come, once their caller is known; in every format.
func TestX07RefusalsSayWhatIsLeftOfTheAllowance(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 900, Output: 100}})
	g := gateway.Run(t, gateway.Options{Config: "limits: {tokens_per_hour: 2000}\n", Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}})
	g.Bardo(t, "owners", "create", "acme")
	g.Bardo(t, "projects", "create", "small", "--owner", "acme", "--limit-usd-day", "0.000001")
	key := func(t *testing.T, flags ...string) gateway.NewKey {
		t.Helper()
		return g.CreateKey(t, append([]string{"--name", "k"}, flags...)...)
	}
	empty, capped, grouped, reader, bound, free := key(t, "--balance-usd", "0"), key(t, "--limit-usd-day", "0.000001"), key(t, "--project", "small"), key(t, "--read-only"),
		key(t, "--model", "other"), key(t)
	for name, call := range inEachFormat("m") {
		do := func(k gateway.NewKey, header ...string) gateway.Answer {
			c := call
			c.Key, c.Header = k.Key, append(header, c.Header...)
			return g.Do(t, c)
		}
		t.Run(name, func(t *testing.T) {
			remains(t, do(empty), http.StatusPaymentRequired, "2000")
			remains(t, do(capped), http.StatusTooManyRequests, "2000")
			remains(t, do(grouped), http.StatusTooManyRequests, "2000")
			remains(t, do(reader), http.StatusForbidden, "2000")                                                          // before its limits are checked
			remains(t, do(bound), http.StatusForbidden, "2000")                                                           // after its body was read
			remains(t, do(free, "X-Bardo-Defer: soon"), http.StatusBadRequest, "2000")                                    // by its headers
			remains(t, do(gateway.NewKey{Key: "bardo_sk_0123456789abcdef0123456789abcdef"}), http.StatusUnauthorized, "") // nobody's

			used := key(t, "--balance-usd", "1")
			served := 0
			for got := do(used, "X-Bardo-No-Cache: true"); got.Status == http.StatusOK; got = do(used, "X-Bardo-No-Cache: true") {
				if served++; len(got.Header.Values("X-Remaining-Tokens")) != 1 || served > 50 {
					t.Fatalf("of request %d: %v %s", served, got.Header.Values("X-Remaining-Tokens"), got.Body)
				}
			}
			if served < 2 {
				t.Fatalf("%d requests were served", served)
			}
			remains(t, do(used), http.StatusTooManyRequests, "0")
			remains(t, g.Do(t, gateway.Call{Path: "/v1/models", Key: used.Key}), http.StatusOK, "0")
			remains(t, g.Do(t, gateway.Call{Path: "/v1/requests/nosuch", Key: used.Key}), http.StatusNotFound, "0")
		})
	}
}
