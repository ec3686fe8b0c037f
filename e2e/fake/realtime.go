package fake

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Realtime sessions, as OpenAI's reference has them (platform.openai.com/docs/api-reference/realtime-client-events and -server-events). BehaveOn("/realtime", …)
// says how handshakes fail, and how responses look: Text, Tokens, TokenSize, Gap, FirstToken, and Usage.Missing. A response is as long as Tokens, whatever
// its max_output_tokens are, and Break ends the session at its end: ErrorEvent with close code 1011. Speech is heard where audio that is not silent is followed
// by audio that is.

// realtimePath is the path of sessions below the base URL.
const realtimePath = "/realtime"

// isRealtime reports whether a request opens a session.
func (s *Server) isRealtime(r *http.Request) bool {
	return s.cfg.Dialect == OpenAI && strings.TrimPrefix(r.URL.Path, s.root()) == realtimePath && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// refuseRealtime returns why a session is not opened.
func (s *Server) refuseRealtime(p *player, rec *Request) *refusal {
	if p.b.Status >= http.StatusBadRequest {
		return p.programmed()
	}
	if e := p.api.authorize(rec.Header, s.cfg.Key); e != nil {
		return e
	}
	if rec.Model == "" || len(s.cfg.Models) > 0 && !slices.Contains(s.cfg.Models, rec.Model) {
		return &refusal{Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "model_not_found", Message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", rec.Model)}
	}
	return nil
}

// realtimeSession is one session.
type realtimeSession struct {
	s     *Server
	conn  *websocket.Conn
	rec   *Request
	model string

	mu       sync.Mutex // guards the fields below, and writing
	n        int
	listens  bool // it begins responses by itself
	heard    bool // speech that has not ended
	buffer   int  // bytes of audio
	text     int  // bytes of text in the conversation
	audio    int  // bytes of audio in it
	cachedAt int  // tokens of text of the last response's input
	limit    any  // max_output_tokens
	cancel   map[string]context.CancelFunc
	running  sync.WaitGroup
}

// serveRealtime serves a session until one side closes it.
func (s *Server) serveRealtime(p *player, r *http.Request, rec *Request) {
	rec.Model = r.URL.Query().Get("model")
	b := s.behaviourOn(realtimePath)
	p.b, p.id = &b, requestID(s.cfg.Dialect, s.cfg.Name, p.n)
	if e := s.refuseRealtime(p, rec); e != nil {
		p.refuse(e)
		return
	}
	conn, err := websocket.Accept(p.w, r, &websocket.AcceptOptions{Subprotocols: []string{"realtime"}, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(64 << 20)
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(ctx, func() { _ = conn.CloseNow() })
	defer stop()
	go func() { // Stop ends sessions
		select {
		case <-s.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	t := &realtimeSession{s: s, conn: conn, rec: rec, model: rec.Model, listens: true, limit: "inf", cancel: map[string]context.CancelFunc{}}
	t.send(ctx, "session.created", map[string]any{"session": t.object()})
	for {
		_, msg, err := conn.Read(ctx)
		if err != nil {
			break
		}
		s.log.update(func() { rec.Body = append(append(rec.Body, msg...), '\n') })
		t.hear(ctx, msg)
	}
	cancel()
	t.running.Wait()
	s.log.update(func() { rec.Cancelled = true })
}

// behaviourOn returns how a path behaves now.
func (s *Server) behaviourOn(path string) Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byPath[path]
}

func (t *realtimeSession) object() map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	detection := map[string]any{"type": "server_vad", "create_response": true}
	if !t.listens {
		detection = nil
	}
	return map[string]any{
		"object": "realtime.session", "type": "realtime", "id": "sess_1", "model": t.model, "output_modalities": []string{"audio"},
		"instructions": "You are a helpful assistant.", "max_output_tokens": t.limit, "tools": []any{}, "tool_choice": "auto", "tracing": nil,
		"audio": map[string]any{
			"input":  map[string]any{"format": map[string]any{"type": "audio/pcm", "rate": 24000}, "transcription": nil, "turn_detection": detection},
			"output": map[string]any{"format": map[string]any{"type": "audio/pcm", "rate": 24000}, "voice": "marin"},
		},
	}
}

// send sends an event.
func (t *realtimeSession) send(ctx context.Context, kind string, members map[string]any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sendLocked(ctx, kind, members)
}

func (t *realtimeSession) sendLocked(ctx context.Context, kind string, members map[string]any) {
	t.n++
	members["type"], members["event_id"] = kind, fmt.Sprintf("event_%d", t.n)
	b, _ := json.Marshal(members)                   // of plain values
	_ = t.conn.Write(ctx, websocket.MessageText, b) // the reader sees that the caller is gone
}

// realtimeEvent is a client's event.
type realtimeEvent struct {
	Type       string          `json:"type"`
	EventID    string          `json:"event_id"`
	Audio      string          `json:"audio"`
	ResponseID string          `json:"response_id"`
	Item       json.RawMessage `json:"item"`
	Session    struct {
		Type  string `json:"type"`
		Limit any    `json:"max_output_tokens"`
		Audio struct {
			Input struct {
				TurnDetection json.RawMessage `json:"turn_detection"`
			} `json:"input"`
		} `json:"audio"`
	} `json:"session"`
	Response struct {
		Conversation string `json:"conversation"`
		Limit        any    `json:"max_output_tokens"`
	} `json:"response"`
}

func (t *realtimeSession) fail(ctx context.Context, e *realtimeEvent, code, message string) {
	t.send(ctx, "error", map[string]any{"error": map[string]any{"type": "invalid_request_error", "code": code, "message": message, "param": nil, "event_id": e.EventID}})
}

// hear answers a client's event.
func (t *realtimeSession) hear(ctx context.Context, msg []byte) {
	var e realtimeEvent
	if err := json.Unmarshal(msg, &e); err != nil {
		t.fail(ctx, &e, "invalid_json", "The event is no JSON.")
		return
	}
	switch e.Type {
	case "session.update":
		if e.Session.Type != "realtime" {
			t.fail(ctx, &e, "missing_required_parameter", "Missing required parameter: 'session.type'.")
			return
		}
		t.mu.Lock()
		if bytes.Equal(e.Session.Audio.Input.TurnDetection, []byte("null")) {
			t.listens = false
		}
		if e.Session.Limit != nil {
			t.limit = e.Session.Limit
		}
		t.mu.Unlock()
		t.send(ctx, "session.updated", map[string]any{"session": t.object()})
	case "conversation.item.create":
		t.mu.Lock()
		t.text += len(e.Item)
		t.mu.Unlock()
		t.send(ctx, "conversation.item.added", map[string]any{"item": e.Item, "previous_item_id": nil})
		t.send(ctx, "conversation.item.done", map[string]any{"item": e.Item, "previous_item_id": nil})
	case "input_audio_buffer.append":
		t.listen(ctx, &e)
	case "input_audio_buffer.commit":
		t.commit(ctx)
	case "input_audio_buffer.clear":
		t.mu.Lock()
		t.buffer = 0
		t.mu.Unlock()
		t.send(ctx, "input_audio_buffer.cleared", map[string]any{})
	case "response.create":
		t.respond(ctx, e.Response.Conversation == "none", e.Response.Limit)
	case "response.cancel":
		t.mu.Lock()
		for _, cancel := range t.cancel {
			cancel()
		}
		t.mu.Unlock()
	default:
		t.fail(ctx, &e, "invalid_value", fmt.Sprintf("Invalid value: '%s'.", e.Type))
	}
}

// listen adds audio to the buffer, and begins a response at the end of speech.
func (t *realtimeSession) listen(ctx context.Context, e *realtimeEvent) {
	pcm, err := base64.StdEncoding.DecodeString(e.Audio)
	if err != nil {
		t.fail(ctx, e, "invalid_value", "Invalid 'audio'. Expected base64-encoded audio bytes.")
		return
	}
	silent := len(bytes.Trim(pcm, "\x00")) == 0
	t.mu.Lock()
	t.buffer += len(pcm)
	began, ended := t.listens && !silent && !t.heard, t.listens && silent && t.heard
	t.heard = t.listens && !silent
	t.mu.Unlock()
	if began {
		t.send(ctx, "input_audio_buffer.speech_started", map[string]any{"audio_start_ms": 0, "item_id": "item_speech"})
	}
	if ended {
		t.send(ctx, "input_audio_buffer.speech_stopped", map[string]any{"audio_end_ms": 1000, "item_id": "item_speech"})
		t.commit(ctx)
		t.respond(ctx, false, nil)
	}
}

func (t *realtimeSession) commit(ctx context.Context) {
	t.mu.Lock()
	t.audio, t.buffer = t.audio+t.buffer, 0
	t.mu.Unlock()
	t.send(ctx, "input_audio_buffer.committed", map[string]any{"item_id": "item_speech", "previous_item_id": nil})
}

// respond begins a response.
func (t *realtimeSession) respond(ctx context.Context, outside bool, limit any) {
	b := t.s.behaviourOn(realtimePath)
	running, cancel := context.WithCancel(ctx)
	t.mu.Lock()
	t.n++
	id := fmt.Sprintf("resp_%d", t.n)
	t.cancel[id] = cancel
	if limit == nil {
		limit = t.limit
	}
	t.mu.Unlock()
	t.running.Go(func() {
		defer cancel()
		t.say(ctx, running, id, outside, limit, &b)
		t.mu.Lock()
		delete(t.cancel, id)
		t.mu.Unlock()
	})
}

// say sends a response: as text, then the same as speech, 2,400 bytes of which are a token.
func (t *realtimeSession) say(ctx, running context.Context, id string, outside bool, limit any, b *Behaviour) {
	response := map[string]any{"object": "realtime.response", "id": id, "status": "in_progress", "status_details": nil, "output": []any{}, "conversation_id": "conv_1", "usage": nil, "max_output_tokens": limit}
	if outside {
		response["conversation_id"] = nil
	}
	t.send(ctx, "response.created", map[string]any{"response": response})
	words := []string{or(b.Text, "Hello from the fake provider.")}
	if b.Tokens > 0 {
		words = nil
		for i := range b.Tokens {
			words = append(words, fmt.Sprintf("tok%d ", i)+strings.Repeat("x", max(b.TokenSize-6, 0)))
		}
	}
	status, text, speech := "completed", 0, 0
	pause := func(d time.Duration) bool {
		if d <= 0 {
			return running.Err() == nil
		}
		select {
		case <-time.After(d):
			return true
		case <-running.Done():
			return false
		}
	}
	ok := pause(b.FirstToken)
	sound := base64.StdEncoding.EncodeToString(make([]byte, 2400))
	for _, w := range words {
		if !ok {
			break
		}
		t.send(ctx, "response.output_audio_transcript.delta", map[string]any{"response_id": id, "item_id": "item_" + id, "output_index": 0, "content_index": 0, "delta": w})
		t.send(ctx, "response.output_audio.delta", map[string]any{"response_id": id, "item_id": "item_" + id, "output_index": 0, "content_index": 0, "delta": sound})
		text, speech = text+(len(w)+3)/4, speech+1
		ok = pause(b.Gap)
	}
	if !ok {
		status = "cancelled"
	}
	switch b.Break.Kind {
	case Healthy:
	case ErrorEvent:
		_ = t.conn.Close(websocket.StatusInternalError, "internal error")
		return
	default:
		_ = t.conn.CloseNow()
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	response["status"] = status
	if b.Usage == nil || !b.Usage.Missing {
		response["usage"] = t.usage(text, speech)
	}
	if !outside {
		t.text, t.audio = t.text+4*text, t.audio+4800*speech
	}
	t.sendLocked(ctx, "response.done", map[string]any{"response": response})
}

// usage is the usage of a response of tokens of text and of speech. The caller holds mu.
func (t *realtimeSession) usage(text, speech int) map[string]any {
	in, heard, cached := 10+t.text/4, t.audio/4800, t.cachedAt/8*8
	t.cachedAt = in
	return map[string]any{
		"total_tokens": in + heard + text + speech, "input_tokens": in + heard, "output_tokens": text + speech,
		"input_token_details": map[string]any{
			"text_tokens": in, "audio_tokens": heard, "image_tokens": 0, "cached_tokens": cached,
			"cached_tokens_details": map[string]any{"text_tokens": cached, "audio_tokens": 0, "image_tokens": 0},
		},
		"output_token_details": map[string]any{"text_tokens": text, "audio_tokens": speech},
	}
}
