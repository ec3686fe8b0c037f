package chat

import "slices"

// Add appends an empty event and returns it to be filled in, which avoids copying the large struct.
func Add(events *[]Event) *Event {
	n := len(*events)
	*events = slices.Grow(*events, 1)[:n+1]
	ev := &(*events)[n]
	*ev = Event{}
	return ev
}
