package extproc

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// recorder is a door that keeps what goes out of it. Only what an answer needs is there.
type recorder struct {
	door
	replies []reply
	body    strings.Builder
}

func (r *recorder) Reply(a reply) error {
	r.replies = append(r.replies, a)
	return nil
}

func (r *recorder) AnswerBody(b []byte, _ bool) error {
	_, _ = r.body.Write(b)
	return nil
}

// deaf is a health that nobody asks.
type deaf struct{ Health }

func (deaf) Report(policy.Result) {}

// waiting is an answer on its way to a client of a stream.
func waiting(d door) *nativeAnswer {
	x := &exchange{
		rt:      &Runtime{Timeouts: Timeouts{FirstToken: time.Second, Heartbeat: time.Second}},
		dialect: openai.Dialect{},
		gw:      &Gateway{Deps: Deps{Health: deaf{}, Metrics: telemetry.New(telemetry.Build{})}},
	}
	x.Request = &chat.Request{Dialect: chat.OpenAI, Stream: true}
	return &nativeAnswer{x: x, door: d, to: policy.Resolution{Provider: "p"}, head: &answerHead{status: 200, header: header.List{}}}
}

// as does what a piece of the answer would do: it has the answer to itself.
func as(n *nativeAnswer, do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
}

func TestK35TimersOfAnEndedAnswerDoNothing(t *testing.T) {
	for name, ends := range map[string]func(*nativeAnswer){
		"after its last byte": func(n *nativeAnswer) { as(n, func() { n.over = true }) },
		"after its client":    func(n *nativeAnswer) { _ = n.broken(errors.New("gone")) },
		"after both":          func(n *nativeAnswer) { as(n, func() { n.over = true }); n.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &recorder{}
				n := waiting(out)
				n.watchFirstToken(t.Context())
				as(n, n.startBeat)
				ends(n)
				<-time.After(time.Minute)
				if out.body.Len() > 0 || len(out.replies) > 0 {
					t.Errorf("afterwards it sent %q and %d replies", out.body.String(), len(out.replies))
				}
				n.stop()
			})
		})
	}
}

func TestTimersOfAnAnswerUnderWaySpeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &recorder{}
		n := waiting(out)
		n.committed = true
		n.watchFirstToken(t.Context())
		as(n, n.startBeat)
		<-time.After(3500 * time.Millisecond)
		n.stop()
		if got := strings.Count(out.body.String(), ": heartbeat\n"); got != 3 || len(out.replies) != 0 {
			t.Errorf("%d heartbeats and %d replies in 3.5 s", got, len(out.replies))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		out := &recorder{}
		n := waiting(out)
		n.watchFirstToken(t.Context())
		<-time.After(time.Minute)
		n.stop()
		if len(out.replies) != 1 || out.replies[0].status != 504 {
			t.Errorf("after a minute without content: %+v", out.replies)
		}
	})
}
