package conversation_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/policy"
)

func talk(turns ...string) *chat.Conversation {
	c := &chat.Conversation{}
	for i, text := range turns {
		role := chat.RoleUser
		if i%2 == 1 {
			role = chat.RoleAssistant
		}
		c.Messages = append(c.Messages, chat.Message{Role: role, Parts: []chat.Part{{Kind: chat.PartText, Text: text}}})
	}
	return c
}

func TestAConversationIsFoundByItsFirstTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := conversation.New()
		first := m.Turn("a", "auto", "", talk("hi"))
		if got := m.Find(&first); got.Model != "" {
			t.Fatalf("nothing is known yet: %+v", got)
		}
		here := policy.ServedBy{Provider: "p", Model: "small", Quality: policy.QualityLow, Tokens: 900}
		m.Record(&first, here)
		for _, row := range []struct {
			about string
			turn  conversation.Turn
			want  policy.ModelID
		}{
			{"the next turn", m.Turn("a", "auto", "", talk("hi", "hello", "and now?")), "small"},
			{"a turn of several later", m.Turn("a", "auto", "", talk("hi", "x", "y", "z", "w")), "small"},
			{"another conversation", m.Turn("a", "auto", "", talk("hello", "x", "and now?")), ""},
			{"another beginning of a conversation", m.Turn("a", "auto", "", talk("hi")), ""},
			{"another account", m.Turn("b", "auto", "", talk("hi", "hello", "and now?")), ""},
			{"another preset", m.Turn("a", "auto:best", "", talk("hi", "hello", "and now?")), ""},
			{"nothing", conversation.Turn{}, ""},
		} {
			if got := m.Find(&row.turn); got.Model != row.want {
				t.Errorf("%s: %+v", row.about, got)
			}
		}
		next := m.Turn("a", "auto", "", talk("hi", "hello", "and now?"))
		time.Sleep(6 * time.Minute) //nolint:forbidigo // synctest's time
		if got := m.Find(&next); got.Model != "small" || got.Tokens != 0 {
			t.Errorf("the provider's cache is cold by now: %+v", got)
		}
		time.Sleep(3 * time.Hour) //nolint:forbidigo // synctest's time
		if got := m.Find(&next); got.Model != "" {
			t.Errorf("it is forgotten by now: %+v", got)
		}
	})
}

func TestASessionIsAConversation(t *testing.T) {
	m := conversation.New()
	first := m.Turn("a", "auto", "s1", talk("hi"))
	m.Record(&first, policy.ServedBy{Provider: "p", Model: "small"})
	next, other := m.Turn("a", "auto", "s1", talk("only the newest")), m.Turn("a", "auto", "s2", talk("only the newest"))
	if got := m.Find(&next); got.Model != "small" {
		t.Errorf("got %+v", got)
	}
	if got := m.Find(&other); got.Model != "" {
		t.Errorf("another session: %+v", got)
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	m := conversation.New()
	for i := range 110_000 {
		turn := m.Turn("a", "auto", "", talk(fmt.Sprint(i)))
		m.Record(&turn, policy.ServedBy{Model: "m"})
	}
	if n := m.Len(); n != 100_000 {
		t.Errorf("%d", n)
	}
	var none *conversation.Memory
	turn := none.Turn("a", "auto", "", talk("hi"))
	none.Record(&turn, policy.ServedBy{Model: "m"})
	if got := none.Find(&turn); got.Model != "" {
		t.Errorf("got %+v", got)
	}
}
