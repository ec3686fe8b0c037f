package report

import (
	"testing"
	"time"

	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/request"
)

func TestPipelineHeader(t *testing.T) {
	x := Report{View: &request.View{}}
	if got := x.pipelineLog(); got != "" {
		t.Errorf("without layers: %q", got)
	}
	x.Log = []pipeline.Entry{{Layer: "l3", Took: 42 * time.Microsecond}, {Layer: "l4", Took: 1200 * time.Microsecond, Saved: 11800}}
	if got := x.pipelineLog(); got != "l3;dur=0.04, l4;dur=1.20;saved=11800" {
		t.Errorf("got %q", got)
	}
	x.Log = []pipeline.Entry{
		{Layer: "l3", Took: 2 * time.Millisecond, Budget: time.Millisecond},
		{Layer: "l6", Took: time.Millisecond, Budget: time.Millisecond, TimedOut: true},
		{Layer: "l7", Took: time.Millisecond, Budget: 2 * time.Millisecond},
	}
	if got := x.pipelineLog(); got != "l3;dur=2.00;late, l6;dur=1.00;left, l7;dur=1.00" {
		t.Errorf("R-09: got %q", got)
	}
}
