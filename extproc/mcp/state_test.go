package mcp

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/xds/state"
)

// TestWhetherServersAnswer: each is asked for a session, which ends again, and not again for a while; one that takes long delays nobody for longer than it may.
func TestWhetherServersAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // of these two
		asked, down := map[string]int{}, false
		g := newGateway(func(r *http.Request, body string) (int, string, string) {
			mu.Lock()
			failing := down
			if r.Method != http.MethodPost {
				asked[r.Host+" "+r.Method]++
			} else if strings.Contains(body, `"initialize"`) {
				asked[r.Host]++
			}
			mu.Unlock()
			switch r.Host {
			case "refuses.example":
				return http.StatusUnauthorized, "", ""
			case "none.example":
				return http.StatusServiceUnavailable, state.HeaderFailure + ": no_healthy_upstream", ""
			case "panics.example":
				panic(errors.New("a fault"))
			case "hangs.example":
				<-r.Context().Done()
				return http.StatusServiceUnavailable, state.HeaderFailure + ": timeout", ""
			}
			if failing {
				return http.StatusInternalServerError, "", ""
			}
			return handshake(func(*http.Request, string) (int, string, string) { return http.StatusNoContent, "", "" })(r, body)
		})
		c := caller("fine", "refuses", "none", "panics", "hangs")
		began := time.Now()
		get := func() []State { return g.States(c.Servers, "s", time.Second) }
		want := []State{
			{"fine", true, ""},
			{"refuses", false, "the MCP server refuses refuses the gateway's credential"},
			{"none", false, "the MCP server none cannot be reached"},
			{"panics", false, "the MCP server panics did not answer as it should (bad_answer)"},
			{"hangs", true, Asking},
		}
		if got := get(); !slices.Equal(got, want) || time.Since(began) != time.Second {
			t.Errorf("%+v after %s", got, time.Since(began))
		}
		if got := g.States(c.Servers, "s", 0); !slices.Equal(got, want) || time.Since(began) != time.Second {
			t.Errorf("without waiting: %+v after %s", got, time.Since(began))
		}
		time.Sleep(openTime) //nolint:forbidigo // of the bubble's clock
		want[4] = State{"hangs", false, "the MCP server hangs did not answer in time"}
		mu.Lock()
		down = true
		mu.Unlock()
		got := get()
		mu.Lock()
		if !slices.Equal(got, want) || asked["fine.example"] != 1 || asked["fine.example DELETE"] != 1 || asked["hangs.example"] != 1 {
			t.Errorf("%+v, asked %v", got, asked)
		}
		mu.Unlock()
		time.Sleep(stateAge) //nolint:forbidigo // of the bubble's clock
		want[0] = State{"fine", false, "the MCP server fine answered with status 500"}
		got = get()
		mu.Lock()
		if !slices.Equal(got, want) || asked["fine.example"] != 2 {
			t.Errorf("%+v, asked %v", got, asked)
		}
		mu.Unlock()
		time.Sleep(openTime) //nolint:forbidigo // of the bubble's clock
	})
}
