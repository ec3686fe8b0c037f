package chat

// FramePart classifies an event by whether its frame (see Event.Raw) contains parts of tool calls. A layer that holds back a call must hold back its
// whole frames, and sees their events one after the other.
type FramePart uint8

// The kinds of events.
const (
	NoCalls  FramePart = iota // in a frame without calls, or in none
	WithCall                  // in a frame with parts of calls; more of its events follow
	LastPart                  // the last event of such a frame
)

// MarkCalls sets Frame of the events of one chunk of a body. An End that carries its frame's bytes is not marked: nothing follows it.
func MarkCalls(events []Event) {
	for first := 0; first < len(events); {
		end := first + 1
		for end < len(events) && events[end].Tail {
			end++
		}
		markFrame(events[first:end])
		first = end
	}
}

func markFrame(frame []Event) {
	if frame[0].Raw == nil && !frame[0].Tail {
		return
	}
	holds := false
	for i := range frame {
		holds = holds || frame[i].Kind == ToolStart || frame[i].Kind == ToolArgs || frame[i].IsOwnCall()
	}
	if !holds {
		return
	}
	for i := range frame {
		frame[i].Frame = WithCall
	}
	frame[len(frame)-1].Frame = LastPart
}
