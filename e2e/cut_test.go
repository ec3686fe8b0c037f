package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestK46K47AStreamThatDies: after the first content there is no second provider and no doubled text. The stream ends
// with an error event of a class that is worth a retry, and without the terminator of a good answer.
func TestK46K47AStreamThatDies(t *testing.T) {
	t.Parallel()
	deaths := map[string]fake.Break{
		"reset":       {Kind: fake.Reset, At: fake.AfterTokens, Tokens: 3},
		"closed":      {Kind: fake.Close, At: fake.AfterTokens, Tokens: 3},
		"stopped":     {Kind: fake.Stop, At: fake.AfterTokens, Tokens: 3},
		"error event": {Kind: fake.ErrorEvent, At: fake.AfterTokens, Tokens: 3},
		"silent":      {Kind: fake.Hang, At: fake.AfterTokens, Tokens: 3},
	}
	type victim struct {
		ask    ask
		second *fake.Server
	}
	victims, o := map[string]victim{}, gateway.Options{Config: hasty}
	for name, br := range deaths {
		for _, p := range pairings {
			n := len(victims)
			v := victim{ask: ask{dialect: p.client, model: fmt.Sprintf("model-%d", n), stream: true}}
			first := fake.Start(t, fake.Config{Dialect: p.first, Name: fmt.Sprintf("first-%d", n)})
			v.second = fake.Start(t, fake.Config{Dialect: p.second, Name: fmt.Sprintf("second-%d", n)})
			// The gap sees to it that what was said has gone to the client before the end comes.
			first.Behave(fake.Behaviour{Tokens: 9, Gap: 50 * time.Millisecond, Break: br})
			o.Providers = append(o.Providers,
				gateway.Provider{ID: fmt.Sprintf("first-%d", n), Fake: first, Format: string(p.first), Models: models(v.ask.model, "")},
				gateway.Provider{ID: fmt.Sprintf("second-%d", n), Fake: v.second, Format: string(p.second), Models: models(v.ask.model, "")})
			victims[name+"/"+p.name] = v
		}
	}
	g := gateway.Run(t, o)
	t.Run("deaths", func(t *testing.T) {
		for name, v := range victims {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				got := g.Do(t, v.ask.call())
				if got.Status != http.StatusOK || got.Err != nil {
					t.Fatalf("status %d, %v: %s", got.Status, got.Err, got.Body)
				}
				for _, word := range []string{"tok0", "tok1", "tok2"} {
					if n := strings.Count(got.Body, word); n != 1 {
						t.Errorf("K-46: %q comes %d times", word, n)
					}
				}
				if strings.Contains(got.Body, "[DONE]") || strings.Contains(got.Body, "message_stop") {
					t.Errorf("the stream ends like a good one: %s", got.Body)
				}
				checkErrorEvent(t, v.ask, got)
				if n := len(v.second.Generations()); n != 0 {
					t.Errorf("K-46: the second provider was asked %d times", n)
				}
				if rec := recordOf(t, g, got); rec.OutputTokens == 0 || rec.Status == "ok" {
					t.Errorf("what was delivered is not in the record: %+v", rec)
				}
			})
		}
	})
	g.AssertSound(t)
}

// checkErrorEvent: the last event is an error in the caller's format that its SDK takes for the server's fault.
func checkErrorEvent(t *testing.T, a ask, got gateway.Answer) {
	t.Helper()
	evs := got.Events(t)
	last := evs[len(evs)-1]
	if a.dialect == fake.Anthropic && last.Name != "error" {
		t.Errorf("the last event is %+v", last)
	}
	if a.dialect == fake.Gemini {
		var e struct {
			Error struct {
				Code    int
				Message string
			}
		}
		gateway.Answer{Body: last.Data}.JSON(t, &e)
		if e.Error.Code < http.StatusInternalServerError || e.Error.Message == "" {
			t.Errorf("K-47: the last event is %+v", last)
		}
		return
	}
	var e apiError
	gateway.Answer{Body: last.Data}.JSON(t, &e)
	if e.Error.Message == "" || e.Error.Type == "invalid_request_error" || e.Error.Type == "" {
		t.Errorf("K-47: the last event is %+v", last)
	}
}

// TestABodyThatIsCut: a JSON answer that breaks off is never given out as a success.
func TestABodyThatIsCut(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: hasty}
	var asks []ask
	for i, p := range pairings {
		a := ask{dialect: p.client, model: fmt.Sprintf("model-%d", i)}
		f := fake.Start(t, fake.Config{Dialect: p.first, Name: a.model})
		f.Behave(fake.Behaviour{Tokens: 100, Break: fake.Break{Kind: fake.Close, At: fake.AfterTokens}})
		o.Providers = append(o.Providers, gateway.Provider{ID: a.model, Fake: f, Format: string(p.first), Models: models(a.model, "")})
		asks = append(asks, a)
	}
	g := gateway.Run(t, o)
	for i, a := range asks {
		t.Run(pairings[i].name, func(t *testing.T) {
			if got := g.Do(t, a.call()); got.Status == http.StatusOK && got.Err == nil {
				t.Errorf("half a body was passed on as a whole: %s", got.Body)
			}
		})
	}
	g.AssertSound(t)
}
