package chat

import "slices"

// Add adds an event to some, and gives it to be filled in. An event is large: what is said in every piece of a text is made in its place.
func Add(events *[]Event) *Event {
	n := len(*events)
	*events = slices.Grow(*events, 1)[:n+1]
	ev := &(*events)[n]
	*ev = Event{}
	return ev
}
