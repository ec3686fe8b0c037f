package fake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/e2e/fake/check"
)

// BatchPlay is how the batches of a fake with Config.Batches go that are made from now on. The zero value answers every request, a moment after it was
// handed in. What a request is answered is what a request outside of a batch would be: see Behave.
type BatchPlay struct {
	Held    bool // a batch is not over before ReleaseBatches, or its cancellation
	Fails   bool // OpenAI: the input file is refused
	Expires int  // so many requests, the last ones, are not begun before the batch expires
}

// BatchItem is a request of a batch.
type BatchItem struct {
	Batch, ID string
	Body      []byte
}

// batcher is the batch API of a vendor, with the files that OpenAI's needs.
type batcher struct {
	mu      sync.Mutex
	play    BatchPlay
	files   map[string][]byte
	batches []*fakeBatch // in order of creation
	items   []BatchItem
	n       int
}

type fakeBatch struct {
	id, endpoint, input string
	metadata            json.RawMessage
	items               []BatchItem
	play                BatchPlay
	made                time.Time
	looks               int
	held, over          bool
	cancelled, deleted  bool
	status              string // OpenAI's, once it is over
	output, errors      string // OpenAI: files
	results             []byte // Anthropic
	counts              struct{ succeeded, errored, expired, cancelled int }
}

// PlayBatches sets how later batches go.
func (s *Server) PlayBatches(p BatchPlay) {
	s.batcher.mu.Lock()
	defer s.batcher.mu.Unlock()
	s.batcher.play = p
}

// ReleaseBatches lets held batches come to their end.
func (s *Server) ReleaseBatches() {
	s.batcher.mu.Lock()
	defer s.batcher.mu.Unlock()
	for _, b := range s.batcher.batches {
		b.held = false
	}
	s.batcher.play.Held = false
}

// BatchItems are the requests of all batches that were accepted so far.
func (s *Server) BatchItems() []BatchItem {
	s.batcher.mu.Lock()
	defer s.batcher.mu.Unlock()
	return slices.Clone(s.batcher.items)
}

// StoredBatchFiles is how many files and undeleted batches the vendor stores.
func (s *Server) StoredBatchFiles() (n int) {
	s.batcher.mu.Lock()
	defer s.batcher.mu.Unlock()
	n = len(s.batcher.files)
	for _, b := range s.batcher.batches {
		if s.cfg.Dialect == Anthropic && !b.deleted {
			n++
		}
	}
	return n
}

// routeBatches answers what concerns batches; ok is false for any other path.
func (s *Server) routeBatches(path string, r *Request) (o outcome, ok bool) {
	if !s.cfg.Batches {
		return o, false
	}
	k := &s.batcher
	k.mu.Lock()
	defer k.mu.Unlock()
	root := "/batches"
	if s.cfg.Dialect == Anthropic {
		root = "/messages/batches"
	}
	if rest, ok := strings.CutPrefix(path, "/files"); ok && s.cfg.Dialect == OpenAI {
		return s.batchFile(strings.TrimPrefix(rest, "/"), r), true
	}
	rest, ok := strings.CutPrefix(path, root)
	if !ok {
		return o, false
	}
	id, what, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch {
	case id == "" && r.Method == http.MethodPost:
		return s.newBatch(r), true
	case id == "":
		return s.listBatches(r), true
	}
	i := slices.IndexFunc(k.batches, func(b *fakeBatch) bool { return b.id == id && !b.deleted })
	if i < 0 {
		return missing(s.api, id), true
	}
	return s.aboutBatch(k.batches[i], what, r), true
}

// batchFile uploads, reads and deletes the files of batches.
func (s *Server) batchFile(rest string, r *Request) outcome {
	k := &s.batcher
	id, content, _ := strings.Cut(rest, "/")
	switch {
	case id == "" && r.Method == http.MethodPost:
		text, e := uploadedBatch(r)
		if e != nil {
			return outcome{refused: e}
		}
		id = k.put(text)
		return outcome{fixed: fmt.Appendf(nil, `{"id":%q,"object":"file","bytes":%d,"created_at":%d,"filename":"input.jsonl","purpose":"batch","status":"processed"}`, id, len(text), openAICreated)}
	case k.files[id] == nil:
		return missing(s.api, id)
	case r.Method == http.MethodDelete:
		delete(k.files, id)
		return outcome{fixed: fmt.Appendf(nil, `{"id":%q,"object":"file","deleted":true}`, id)}
	case content == "content":
		return outcome{raw: &Raw{Status: http.StatusOK, Header: []string{"content-type: application/octet-stream"}, Body: string(k.files[id])}}
	}
	return outcome{fixed: fmt.Appendf(nil, `{"id":%q,"object":"file","bytes":%d,"purpose":"batch"}`, id, len(k.files[id]))}
}

func (k *batcher) put(text []byte) string {
	if k.files == nil {
		k.files = map[string][]byte{}
	}
	k.n++
	id := fmt.Sprintf("file-%s", opaque(fmt.Sprint("batch file", k.n), 22))
	k.files[id] = text
	return id
}

// uploadedBatch reads a form with the file of a batch.
func uploadedBatch(r *Request) (text []byte, e *refusal) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, check.Bad("", "", "%v", err)
	}
	purpose := ""
	for form := multipart.NewReader(bytes.NewReader(r.Body), params["boundary"]); ; {
		part, err := form.NextPart()
		if err != nil {
			break
		}
		b, err := io.ReadAll(part)
		if err != nil {
			return nil, check.Bad("", "", "%v", err)
		}
		switch part.FormName() {
		case "purpose":
			purpose = string(b)
		case "file":
			text = b
		}
	}
	if purpose != "batch" || text == nil {
		return nil, check.Bad("purpose", "", "a file with the purpose batch is required")
	}
	return text, nil
}

// newBatch makes a batch of what was handed in.
func (s *Server) newBatch(r *Request) outcome {
	k := &s.batcher
	b := &fakeBatch{play: k.play, held: k.play.Held, made: time.Now()}
	k.n++
	var e *refusal
	if s.cfg.Dialect == Anthropic {
		b.id, b.endpoint = "msgbatch_"+opaque(fmt.Sprint("batch", k.n), 24), "/v1/messages"
		e = b.readAnthropic(r.Body)
	} else {
		b.id = "batch_" + opaque(fmt.Sprint("batch", k.n), 32)
		e = b.readOpenAI(r.Body, k.files)
	}
	if e != nil {
		return outcome{refused: e}
	}
	k.batches = append(k.batches, b)
	if b.status != "failed" {
		k.items = append(k.items, b.items...)
	}
	return outcome{fixed: s.describe(b)}
}

func (b *fakeBatch) readAnthropic(body []byte) *refusal {
	var asked struct {
		Requests []struct {
			ID     string          `json:"custom_id"`
			Params json.RawMessage `json:"params"`
		} `json:"requests"`
	}
	if err := json.Unmarshal(body, &asked); err != nil || len(asked.Requests) == 0 {
		return check.Bad("", "", "requests: Field required")
	}
	for _, q := range asked.Requests {
		if !fitsBatch(q.ID) || b.has(q.ID) || len(q.Params) == 0 {
			return check.Bad("", "", "requests: a custom_id is missing, twice there, or of other characters: %q", q.ID)
		}
		b.items = append(b.items, BatchItem{Batch: b.id, ID: q.ID, Body: q.Params})
	}
	return nil
}

// fitsBatch is Anthropic's rule of custom ids.
func fitsBatch(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

func (b *fakeBatch) has(id string) bool {
	return slices.ContainsFunc(b.items, func(it BatchItem) bool { return it.ID == id })
}

// batchEndpoints are the endpoints whose requests may be part of a batch.
var batchEndpoints = []string{"/v1/responses", "/v1/chat/completions", "/v1/embeddings", "/v1/completions"}

func (b *fakeBatch) readOpenAI(body []byte, files map[string][]byte) *refusal {
	var asked struct {
		Input    string          `json:"input_file_id"`
		Endpoint string          `json:"endpoint"`
		Window   string          `json:"completion_window"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return check.Bad("", "", "%v", err)
	}
	switch {
	case files[asked.Input] == nil:
		return check.Bad("input_file_id", "", "Invalid file ID: %s", asked.Input)
	case !slices.Contains(batchEndpoints, asked.Endpoint):
		return check.Bad("endpoint", "", "Invalid value: %q", asked.Endpoint)
	case asked.Window != "24h":
		return check.Bad("completion_window", "", "Invalid value: %q. Supported values are: '24h'.", asked.Window)
	}
	b.input, b.endpoint, b.metadata = asked.Input, asked.Endpoint, asked.Metadata
	model := ""
	for line := range bytes.Lines(files[asked.Input]) {
		var l struct {
			ID     string          `json:"custom_id"`
			Method string          `json:"method"`
			URL    string          `json:"url"`
			Body   json.RawMessage `json:"body"`
		}
		err := json.Unmarshal(line, &l)
		if first := modelOf(l.Body); model == "" {
			model = first
		}
		if err != nil || l.ID == "" || b.has(l.ID) || l.Method != http.MethodPost || l.URL != asked.Endpoint || modelOf(l.Body) != model {
			b.status, b.over = "failed", true
			return nil
		}
		b.items = append(b.items, BatchItem{Batch: b.id, ID: l.ID, Body: l.Body})
	}
	if b.play.Fails {
		b.status, b.over = "failed", true
	}
	return nil
}

// batchLooks is how often a batch is seen in progress before it is over.
const batchLooks = 1

// listBatches is the latest first, a page at a time.
func (s *Server) listBatches(r *Request) outcome {
	q, err := url.ParseQuery(r.RawQuery)
	if err != nil {
		return outcome{refused: check.Bad("", "", "%v", err)}
	}
	after := q.Get("after") + q.Get("after_id")
	rows, skip := []json.RawMessage{}, after != ""
	for _, b := range slices.Backward(s.batcher.batches) {
		if !skip && !b.deleted {
			rows = append(rows, s.describe(b))
		}
		skip = skip && b.id != after
	}
	data, err := json.Marshal(rows)
	if err != nil {
		return outcome{refused: check.Bad("", "", "%v", err)}
	}
	return outcome{fixed: fmt.Appendf(nil, `{"object":"list","data":%s,"has_more":false}`, data)}
}

// aboutBatch answers about one batch.
func (s *Server) aboutBatch(b *fakeBatch, what string, r *Request) outcome {
	switch {
	case what == "cancel" && r.Method == http.MethodPost:
		b.cancelled = b.cancelled || !b.over
		return outcome{fixed: s.describe(b)}
	case what == "results" && b.over && s.cfg.Dialect == Anthropic:
		return outcome{raw: &Raw{Status: http.StatusOK, Header: []string{"content-type: application/x-jsonl"}, Body: string(b.results)}}
	case what == "" && r.Method == http.MethodDelete && b.over && s.cfg.Dialect == Anthropic:
		b.deleted = true
		return outcome{fixed: fmt.Appendf(nil, `{"id":%q,"type":"message_batch_deleted"}`, b.id)}
	case what != "" || r.Method != http.MethodGet:
		return missing(s.api, b.id+"/"+what)
	}
	if b.looks++; !b.over && (b.cancelled || !b.held && b.looks > batchLooks) {
		s.completeBatch(b, r)
	}
	return outcome{fixed: s.describe(b)}
}

// completeBatch answers the requests of a batch, in another order than they came in.
func (s *Server) completeBatch(b *fakeBatch, by *Request) {
	var good, bad bytes.Buffer
	begun := len(b.items) - min(b.play.Expires, len(b.items))
	if b.cancelled {
		begun = 0
	}
	for i, it := range slices.Backward(b.items) {
		if i >= begun {
			s.notBegun(b, &it, &bad)
			continue
		}
		status, body := s.answerItem(b, &it, by)
		to := &good
		if b.counts.succeeded++; status != http.StatusOK {
			b.counts.succeeded--
			b.counts.errored++
			to = &bad
		}
		s.writeResult(to, &it, status, body)
	}
	b.over, b.results = true, append(good.Bytes(), bad.Bytes()...)
	b.status = "completed"
	switch {
	case b.cancelled:
		b.status = "cancelled"
	case b.play.Expires > 0:
		b.status = "expired"
	}
	if s.cfg.Dialect == OpenAI && good.Len() > 0 {
		b.output = s.batcher.put(bytes.Clone(good.Bytes()))
	}
	if s.cfg.Dialect == OpenAI && bad.Len() > 0 {
		b.errors = s.batcher.put(bytes.Clone(bad.Bytes()))
	}
}

// answerItem answers a request as if it had come by itself.
func (s *Server) answerItem(b *fakeBatch, it *BatchItem, by *Request) (status int, body []byte) {
	h := by.Header.Clone()
	h.Set("Content-Type", "application/json")
	rec := &Request{Method: http.MethodPost, Path: b.endpoint, Header: h, Body: it.Body, Model: modelOf(it.Body), Time: time.Now()}
	a, n := s.apiOn(b.endpoint), s.seq.Add(1)
	behaviour := s.next(rec)
	id := requestID(s.cfg.Dialect, s.cfg.Name, n)
	q, e := a.read(rec.Header, rec.Body, &s.cfg)
	if e == nil && behaviour.Status >= http.StatusBadRequest {
		e = a.errorFor(behaviour.Status)
	}
	if e != nil {
		return e.Status, a.refusal(e, id)
	}
	return http.StatusOK, a.body(q, behaviour.formed(q), n)
}

// compactJSON is a value on one line.
func compactJSON(b []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return []byte("null")
	}
	return out.Bytes()
}

func (s *Server) writeResult(to *bytes.Buffer, it *BatchItem, status int, body []byte) {
	body = compactJSON(body)
	switch {
	case s.cfg.Dialect == OpenAI:
		fmt.Fprintf(to, `{"id":"batch_req_%s","custom_id":%s,"response":{"status_code":%d,"request_id":"req_%s","body":%s},"error":null}`+"\n",
			opaque(it.ID, 24), quote(it.ID), status, opaque(it.ID, 20), body)
	case status == http.StatusOK:
		fmt.Fprintf(to, `{"custom_id":%s,"result":{"type":"succeeded","message":%s}}`+"\n", quote(it.ID), body)
	default:
		fmt.Fprintf(to, `{"custom_id":%s,"result":{"type":"errored","error":%s}}`+"\n", quote(it.ID), body)
	}
}

func (s *Server) notBegun(b *fakeBatch, it *BatchItem, to *bytes.Buffer) {
	kind := "expired"
	if b.cancelled {
		kind = "canceled"
		b.counts.cancelled++
	} else {
		b.counts.expired++
	}
	if s.cfg.Dialect == Anthropic {
		fmt.Fprintf(to, `{"custom_id":%s,"result":{"type":%q}}`+"\n", quote(it.ID), kind)
		return
	}
	if !b.cancelled { // OpenAI lists nothing of what was cancelled
		fmt.Fprintf(to, `{"id":"batch_req_%s","custom_id":%s,"response":null,"error":{"code":"batch_expired","message":"This request could not be executed before the completion window expired."}}`+"\n",
			opaque(it.ID, 24), quote(it.ID))
	}
}

// describe is a batch as its vendor shows it.
func (s *Server) describe(b *fakeBatch) json.RawMessage {
	c := &b.counts
	if s.cfg.Dialect == Anthropic {
		status, results, processing := "in_progress", "null", len(b.items)
		switch {
		case b.over:
			status, results, processing = "ended", fmt.Sprintf("%q", "https://api.anthropic.com/v1/messages/batches/"+b.id+"/results"), 0
		case b.cancelled:
			status = "canceling"
		}
		return fmt.Appendf(nil, `{"id":%q,"type":"message_batch","processing_status":%q,"request_counts":{"processing":%d,"succeeded":%d,"errored":%d,"canceled":%d,"expired":%d},"ended_at":null,"created_at":%q,"expires_at":%q,"archived_at":null,"cancel_initiated_at":null,"results_url":%s}`,
			b.id, status, processing, c.succeeded, c.errored, c.cancelled, c.expired, b.made.UTC().Format(time.RFC3339Nano), b.made.Add(24*time.Hour).UTC().Format(time.RFC3339Nano), results)
	}
	status := "in_progress"
	switch {
	case b.over:
		status = b.status
	case b.cancelled:
		status = "cancelling"
	case b.looks == 0:
		status = "validating"
	}
	metadata := string(b.metadata)
	if metadata == "" {
		metadata = "null"
	}
	return fmt.Appendf(nil, `{"id":%q,"object":"batch","endpoint":%q,"errors":null,"input_file_id":%q,"completion_window":"24h","status":%q,"output_file_id":%s,"error_file_id":%s,"created_at":%d,"expires_at":%d,"request_counts":{"total":%d,"completed":%d,"failed":%d},"metadata":%s}`,
		b.id, b.endpoint, b.input, status, orNull(b.output), orNull(b.errors), b.made.Unix(), b.made.Add(24*time.Hour).Unix(), len(b.items), c.succeeded, c.errored, metadata)
}
