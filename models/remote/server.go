package remote

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"bardo.money/gateway/models"
)

// The paths of a server.
const (
	pathEmbed  = "/embed"  // a text to its vector: float32, little-endian
	pathScore  = "/score"  // a text to its score: float64, little-endian
	pathNames  = "/names"  // a text to the names in it, in JSON
	pathStatus = "/status" // the models' states, in JSON
)

// Headers of requests and answers.
const (
	headerWithin = "X-Within" // the caller's timeout in microseconds
	headerTag    = "X-Tag"
	headerTokens = "X-Tokens"
	headerCut    = "X-Cut"
)

// The statuses of errors, whose bodies are the reasons.
const (
	statusBusy = http.StatusTooManyRequests
	statusOff  = http.StatusServiceUnavailable
	statusLate = http.StatusGatewayTimeout
)

// Host has the models of a server.
type Host interface {
	Embedder() models.Embedder
	Measurer() models.Measurer
	Classifier() models.Classifier
	Recognizer() models.Recognizer
	Status() []models.Status
}

// Handler serves the models of this process to clients. Texts are not logged.
func Handler(h Host) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathEmbed, serve(func(ctx context.Context, text string, out http.Header) ([]byte, error) {
		v, err := h.Measurer().Measure(ctx, text)
		if err != nil {
			return nil, err
		}
		out.Set(headerTag, h.Embedder().Tag())
		out.Set(headerTokens, strconv.Itoa(v.Tokens))
		if v.Cut {
			out.Set(headerCut, "1")
		}
		body := make([]byte, 0, 4*len(v.Values))
		for _, x := range v.Values {
			body = binary.LittleEndian.AppendUint32(body, math.Float32bits(x))
		}
		return body, nil
	}))
	mux.HandleFunc("POST "+pathScore, serve(func(ctx context.Context, text string, out http.Header) ([]byte, error) {
		score, err := h.Classifier().Score(ctx, text)
		out.Set(headerTag, h.Classifier().Tag())
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(score)), err
	}))
	mux.HandleFunc("POST "+pathNames, serve(func(ctx context.Context, text string, _ http.Header) ([]byte, error) {
		all, err := h.Recognizer().Entities(ctx, text)
		if err != nil {
			return nil, err
		}
		return json.Marshal(all)
	}))
	mux.HandleFunc("GET "+pathStatus, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(h.Status()) // fails only if the client has disconnected
	})
	return mux
}

// serve handles calls with a text, each within its caller's timeout.
func serve(run func(ctx context.Context, text string, out http.Header) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxText))
		if err != nil {
			http.Error(w, "the text cannot be read", http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), within(r.Header.Get(headerWithin)))
		defer cancel()
		body, err := run(ctx, string(text), w.Header())
		if err != nil {
			w.WriteHeader(statusOf(err))
			_, _ = io.WriteString(w, err.Error()) // fails only if the client has disconnected
			return
		}
		_, _ = w.Write(body) // as above
	}
}

// within parses the timeout of a call.
func within(header string) time.Duration {
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil || n <= 0 || n > defaultTimeout.Microseconds()*100 {
		return defaultTimeout
	}
	return time.Duration(n) * time.Microsecond
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, models.ErrBusy):
		return statusBusy
	case errors.Is(err, models.ErrOff), errors.Is(err, models.ErrClosed):
		return statusOff
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return statusLate
	}
	return http.StatusInternalServerError
}
