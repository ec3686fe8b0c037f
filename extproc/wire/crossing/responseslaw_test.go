package crossing_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
)

// responseEvent holds the members of a Responses stream's event that the test checks.
type responseEvent struct {
	Type         string          `json:"type"`
	Number       int64           `json:"sequence_number"`
	Item         json.RawMessage `json:"item"`
	ItemID       string          `json:"item_id"`
	OutputIndex  int             `json:"output_index"`
	ContentIndex int             `json:"content_index"`
	SummaryIndex int             `json:"summary_index"`
	Delta        string          `json:"delta"`
	Text         string          `json:"text"`
	Refusal      string          `json:"refusal"`
	Arguments    string          `json:"arguments"`
	Input        string          `json:"input"`
	Response     struct {
		ID     string
		Output []json.RawMessage
	} `json:"response"`
}

// TestAResponsesStreamIsItsResponse: the events of a stream are numbered, items start before their pieces and end after them, the pieces of
// a part are its text, and the last event contains all items in their final state.
func TestAResponsesStreamIsItsResponse(t *testing.T) {
	to := form{chat.Responses, true}
	for _, s := range samples(t) {
		events := decode(s.from, s.requestFor(forms[0]), s.body)
		if events[len(events)-1].Kind != chat.End {
			continue
		}
		for i := range events {
			events[i].Raw, events[i].Tail = nil, false
		}
		out, _ := encode(to, s.from.dialect, events)
		checkResponse(t, s.name, out)
	}
}

func checkResponse(t *testing.T, name string, stream []byte) {
	t.Helper()
	ids := map[int]string{}
	pieces, ended := map[string]string{}, map[int]json.RawMessage{}
	var last responseEvent
	for number, f := range bytes.Split(bytes.TrimSuffix(stream, []byte("\n\n")), []byte("\n\n")) {
		head, data, _ := strings.Cut(string(f), "\ndata: ")
		last = responseEvent{}
		if err := json.Unmarshal([]byte(data), &last); err != nil {
			t.Fatalf("%s: %v in %s", name, err, f)
		}
		if head != "event: "+last.Type || last.Number != int64(number) {
			t.Errorf("%s: %s has the number %d, want %d", name, head, last.Number, number)
		}
		kind, verb := last.Type[:strings.LastIndexByte(last.Type, '.')], last.Type[strings.LastIndexByte(last.Type, '.')+1:]
		var item struct{ ID string }
		_ = json.Unmarshal(last.Item, &item) // of events with an item
		key := kind + "/" + last.ItemID + "/" + string(rune('0'+last.ContentIndex+last.SummaryIndex))
		switch {
		case kind == "response.output_item" && verb == "added":
			ids[last.OutputIndex] = item.ID
		case kind == "response.output_item":
			if ids[last.OutputIndex] != item.ID {
				t.Errorf("%s: item %d is done as %s, and was added as %s", name, last.OutputIndex, item.ID, ids[last.OutputIndex])
			}
			ended[last.OutputIndex] = last.Item
		case last.ItemID != "" && (ids[last.OutputIndex] != last.ItemID || ended[last.OutputIndex] != nil):
			t.Errorf("%s: %s outside its item", name, f)
		case verb == "delta":
			pieces[key] += last.Delta
		case verb == "done" && !strings.HasSuffix(kind, "_part"):
			if whole := last.Text + last.Refusal + last.Arguments + last.Input; whole != pieces[key] {
				t.Errorf("%s: %s ends as %q, its pieces are %q", name, key, whole, pieces[key])
			}
		}
	}
	if last.Type != "response.completed" && last.Type != "response.incomplete" || len(last.Response.Output) != len(ended) {
		t.Errorf("%s: ends with %s and %d items, of %d", name, last.Type, len(last.Response.Output), len(ended))
	}
	for i, item := range last.Response.Output {
		var a, b any
		if json.Unmarshal(item, &a) != nil || json.Unmarshal(ended[i], &b) != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s: item %d is %s, and was done as %s", name, i, item, ended[i])
		}
	}
}
