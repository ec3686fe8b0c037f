package extproc

import (
	"context"
	"fmt"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/classifier"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// judges reports whether the classifier has a say in a request: its model is the gateway's choice, and nothing else says what it needs.
func judges(rt *runtime.Config, h *policy.Hints, f *intent.Facts) bool {
	return rt.Classifier != nil && intent.Auto(f.Model) && h.Subsystem == "" && h.Quality == policy.QualityUnsaid && f.Text != ""
}

// mayClassify reports whether the classifier may have a say, as far as is known without the request's text.
func (x *exchange) mayClassify() bool {
	return x.Config.Classifier != nil && x.Request.Op == chat.Generate && intent.Auto(x.Request.Model) && x.Hints.Subsystem == "" && x.Hints.Quality == policy.QualityUnsaid
}

// classify has the classifier judge the request.
func (x *exchange) classify(ctx context.Context) {
	f := hint.Facts(x.Request, int64(x.Request.MaxTokens))
	if !judges(x.Config, &x.Hints, &f) {
		return
	}
	began := time.Now()
	r, why := x.Config.Classifier.Judge(ctx, f.Text)
	x.reading = r
	x.Log = append(x.Log, pipeline.Entry{Layer: classifier.Name, Took: time.Since(began), Budget: classifier.Budget, TimedOut: why == "late", Note: noteOf(r, why)})
}

// noteOf is what X-Bardo-Pipeline says of a judgement.
func noteOf(r *intent.Reading, why string) string {
	if r == nil {
		if why == "late" {
			return "" // as of any step that exceeded its limit
		}
		return why
	}
	note := fmt.Sprintf("level=%.1f", r.Level)
	if r.SureOfDomain() {
		note += ";domain=" + r.Domain
	}
	if r.SureOfIntent() {
		note += ";intent=" + r.Intent
	}
	return note
}
