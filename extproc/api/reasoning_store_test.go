package api

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/policy"
)

func TestD44ReasoningIsKeptForTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s ReasoningStore
		s.Put("req_a", "alice", []byte("a"))
		time.Sleep(4 * time.Minute) //nolint:forbidigo // of the bubble's clock
		s.Put("req_b", "alice", []byte("bb"))
		for _, row := range []struct {
			id      string
			account policy.Account
			want    string
		}{
			{"req_a", "alice", "a"}, {"req_b", "alice", "bb"}, {"req_a", "bob", ""}, {"req_a", "", ""}, {"req_c", "alice", ""},
		} {
			got := ""
			if k := s.get(row.id, row.account); k != nil {
				got = string(k.json)
			}
			if got != row.want {
				t.Errorf("%q gets %q of %s, want %q", row.account, got, row.id, row.want)
			}
		}
		time.Sleep(6 * time.Minute) //nolint:forbidigo // of the bubble's clock
		synctest.Wait()
		if s.get("req_a", "alice") != nil || len(s.queue) != 1 || s.bytes != 2 {
			t.Errorf("after ten minutes %d answers of %d bytes are kept", len(s.queue), s.bytes)
		}
		if s.get("req_b", "alice") == nil {
			t.Error("the younger one went with the older")
		}
		time.Sleep(4 * time.Minute) //nolint:forbidigo // of the bubble's clock
		synctest.Wait()
		if len(s.queue) != 0 || len(s.byID) != 0 || s.bytes != 0 || s.ending != nil {
			t.Errorf("nothing should be kept: %d answers of %d bytes", len(s.queue), s.bytes)
		}
		s.Put("req_d", "alice", []byte("d"))
		if s.get("req_d", "alice") == nil {
			t.Error("an empty ReasoningStore keeps nothing any more")
		}
		time.Sleep(reasoningTime) //nolint:forbidigo // of the bubble's clock
		synctest.Wait()
		if len(s.queue) != 0 {
			t.Error("the second round is not cleared")
		}
	})
}

func TestTheShelfIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s ReasoningStore
		for i := range maxReasonings + 10 {
			s.Put(fmt.Sprintf("req_%d", i), "alice", []byte("x"))
		}
		if len(s.queue) != maxReasonings || len(s.byID) != maxReasonings || s.get("req_9", "alice") != nil || s.get("req_10", "alice") == nil {
			t.Errorf("%d answers are kept", len(s.queue))
		}
		big := make([]byte, maxReasoning)
		for i := range 20 {
			s.Put(fmt.Sprintf("big_%d", i), "alice", big)
		}
		if s.bytes > maxReasoningBytes || s.get("big_19", "alice") == nil || s.get("big_3", "alice") != nil {
			t.Errorf("%d bytes are kept, in %d answers", s.bytes, len(s.queue))
		}
		s.Put("req_huge", "alice", make([]byte, maxReasoning+1))
		if s.get("req_huge", "alice") != nil {
			t.Error("an answer beyond the bound is kept")
		}
		time.Sleep(reasoningTime) //nolint:forbidigo // of the bubble's clock
		synctest.Wait()
		if s.bytes != 0 || len(s.byID) != 0 {
			t.Errorf("%d bytes are left", s.bytes)
		}
	})
}
