package fake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"

	"bardo.money/gateway/e2e/fake/check"
)

// keeper is what a vendor keeps under its key: files and batches, in OpenAI's form or Anthropic's.
type keeper struct {
	mu     sync.Mutex
	order  []string
	things map[string]*thing
	n      int
}

type thing struct {
	kind, name, input string
	content           []byte
	cancelled         bool
}

func (k *keeper) add(prefix string, t *thing) string {
	k.n++
	id := fmt.Sprintf("%s%d", prefix, k.n)
	k.put(id, t)
	return id
}

func (k *keeper) put(id string, t *thing) {
	if k.things == nil {
		k.things = map[string]*thing{}
	}
	if _, ok := k.things[id]; !ok {
		k.order = append(k.order, id)
	}
	k.things[id] = t
}

// routeKept answers a path below one of the collections; ok is false for any other path.
func (s *Server) routeKept(path string, r *Request) (o outcome, ok bool) {
	collections := []string{"/files", "/batches", "/responses", "/conversations"}
	if s.cfg.Dialect == Anthropic {
		collections = []string{"/files", "/messages/batches"}
	}
	i := slices.IndexFunc(collections, func(c string) bool { return path == c || strings.HasPrefix(path, c+"/") })
	if i < 0 || path == "/responses" {
		return o, false
	}
	id, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, collections[i]), "/"), "/")
	k := &s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if collections[i] == "/responses" {
		return s.keptResponse(r, id, rest), true
	}
	if id == "" {
		return s.keptCollection(r, collections[i]), true
	}
	t := k.things[id]
	if t == nil || (t.kind == "file") != (collections[i] == "/files") {
		return missing(s.api, id), true
	}
	switch {
	case r.Method == http.MethodDelete && rest == "":
		delete(k.things, id)
		return outcome{fixed: fmt.Appendf(nil, `{"id":%q,"deleted":true}`, id)}, true
	case r.Method == http.MethodPost && rest == "cancel":
		t.cancelled = true
	case r.Method == http.MethodGet && (rest == "content" || rest == "results"):
		return outcome{raw: &Raw{Status: http.StatusOK, Header: []string{"content-type: application/x-jsonl"}, Body: string(t.content)}}, true
	case r.Method != http.MethodGet || rest != "":
		return missing(s.api, id+"/"+rest), true
	}
	return outcome{fixed: s.shown(id, t)}, true
}

func missing(a api, what string) outcome {
	return outcome{refused: &refusal{Status: http.StatusNotFound, Kind: a.errorFor(http.StatusNotFound).Kind, Message: "No such thing: " + what, Quiet: true}}
}

func (s *Server) keptCollection(r *Request, collection string) outcome {
	k := &s.keeper
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		kind := "batch"
		if collection == "/files" {
			kind = "file"
		}
		rows := []json.RawMessage{}
		for _, id := range k.order {
			if t := k.things[id]; t != nil && t.kind == kind {
				rows = append(rows, s.shown(id, t))
			}
		}
		data, err := json.Marshal(rows)
		if err != nil {
			return outcome{refused: check.Bad("", "", "%v", err)}
		}
		return outcome{fixed: fmt.Appendf(nil, `{"object":"list", "data":%s, "has_more":false}`, data)}
	}
	switch collection {
	case "/files":
		return s.upload(r)
	case "/conversations":
		t := &thing{kind: "conversation"}
		id := k.add("conv_", t)
		return outcome{fixed: s.shown(id, t)}
	}
	var asked struct {
		Input    string `json:"input_file_id"`
		Requests []json.RawMessage
	}
	if err := json.Unmarshal(r.Body, &asked); err != nil {
		return outcome{refused: check.Bad("", "", "%v", err)}
	}
	prefix := "msgbatch_"
	if s.cfg.Dialect == OpenAI {
		if k.things[asked.Input] == nil {
			return outcome{refused: check.Bad("input_file_id", "", "Invalid file ID: %s", asked.Input)}
		}
		prefix = "batch_"
	}
	t := &thing{kind: "batch", input: asked.Input, content: []byte(`{"custom_id":"a","result":{}}` + "\n")}
	id := k.add(prefix, t)
	return outcome{fixed: s.shown(id, t)}
}

// upload reads a form with a file.
func (s *Server) upload(r *Request) outcome {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return outcome{refused: check.Bad("", "", "%v", err)}
	}
	form := multipart.NewReader(bytes.NewReader(r.Body), params["boundary"])
	for {
		part, err := form.NextPart()
		if err != nil {
			return outcome{refused: check.Bad("file", "", "%v", err)}
		}
		if part.FormName() != "file" {
			continue
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return outcome{refused: check.Bad("file", "", "%v", err)}
		}
		t := &thing{kind: "file", name: part.FileName(), content: content}
		prefix := "file-"
		if s.cfg.Dialect == Anthropic {
			prefix = "file_"
		}
		id := s.keeper.add(prefix, t)
		return outcome{fixed: s.shown(id, t)}
	}
}

// shown is a thing as its vendor describes it. A batch is over at once.
func (s *Server) shown(id string, t *thing) json.RawMessage {
	state, ended := "completed", "ended"
	if t.cancelled {
		state, ended = "cancelling", "canceling"
	}
	switch {
	case t.kind == "file":
		return fmt.Appendf(nil, `{"id":%q, "object":"file", "bytes":%d, "filename":%q}`, id, len(t.content), t.name)
	case t.kind == "conversation":
		return fmt.Appendf(nil, `{"id":%q, "object":"conversation", "created_at":1741900000, "metadata":{}}`, id)
	case s.cfg.Dialect == Anthropic:
		return fmt.Appendf(nil, `{"id":%q, "type":"message_batch", "processing_status":%q, "results_url":"https://api.anthropic.com/v1/messages/batches/%s/results"}`, id, ended, id)
	}
	out := "file-of-" + id
	s.keeper.put(out, &thing{kind: "file", name: "out.jsonl", content: t.content})
	return fmt.Appendf(nil, `{"id":%q, "object":"batch", "status":%q, "input_file_id":%q, "output_file_id":%q}`, id, state, t.input, out)
}

// keptResponse answers about a response that was made before.
func (s *Server) keptResponse(r *Request, id, rest string) outcome {
	if _, ok := s.kept.Load(id); !ok {
		return missing(s.api, id)
	}
	switch {
	case r.Method == http.MethodDelete && rest == "":
		s.kept.Delete(id)
		return outcome{fixed: fmt.Appendf(nil, `{"id":%q,"object":"response","deleted":true}`, id)}
	case r.Method == http.MethodGet && rest == "input_items":
		return outcome{fixed: []byte(`{"object":"list","data":[{"id":"msg_1","type":"message"}],"has_more":false}`)}
	case r.Method == http.MethodGet && rest == "", r.Method == http.MethodPost && rest == "cancel":
		return outcome{fixed: fmt.Appendf(nil, `{"id":%q, "object":"response", "status":"completed"}`, id)}
	}
	return missing(s.api, id+"/"+rest)
}

// routeCached answers about Google's kept prompts.
func (s *Server) routeCached(r *Request, name string) outcome {
	k := &s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	shown := func(name string) json.RawMessage {
		return fmt.Appendf(nil, `{"name":%q, "model":"models/gemini"}`, name)
	}
	if name == "cachedContents" {
		if r.Method == http.MethodPost {
			return outcome{fixed: shown(k.add(name+"/", &thing{kind: "cached"}))}
		}
		var rows []json.RawMessage
		for _, n := range k.order {
			if k.things[n] != nil {
				rows = append(rows, shown(n))
			}
		}
		data, err := json.Marshal(rows)
		if err != nil {
			return outcome{refused: check.Bad("", "", "%v", err)}
		}
		return outcome{fixed: fmt.Appendf(nil, `{"cachedContents":%s}`, data)}
	}
	if k.things[name] == nil {
		return missing(s.api, name)
	}
	if r.Method == http.MethodDelete {
		delete(k.things, name)
		return outcome{fixed: []byte(`{}`)}
	}
	return outcome{fixed: shown(name)}
}

// StoreFile stores a file under the server's key, as somebody does who does not come through the gateway, and returns its id.
func (s *Server) StoreFile(content string) string {
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	return s.keeper.add("file-", &thing{kind: "file", name: "outside.txt", content: []byte(content)})
}
