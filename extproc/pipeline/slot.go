package pipeline

import "sync/atomic"

// Slot holds a layer's own state of an exchange. Make one per kind of state with NewSlot, in a package variable. The slot is safe for concurrent use;
// the state belongs to the exchange's owner.
type Slot[T any] struct{ index int }

var slots atomic.Int64

// NewSlot returns a slot that no other layer uses.
func NewSlot[T any]() Slot[T] { return Slot[T]{int(slots.Add(1)) - 1} }

// Of returns the state in an exchange, the zero value of T the first time. The pointer is valid as long as the exchange.
func (s Slot[T]) Of(x *Exchange) *T {
	if len(x.slots) <= s.index {
		x.slots = append(x.slots, make([]any, s.index+1-len(x.slots))...)
	}
	if x.slots[s.index] == nil {
		x.slots[s.index] = new(T)
	}
	return x.slots[s.index].(*T) //nolint:forcetypeassert // the index is this slot's alone
}

// In returns the state in an exchange; nil if there is none.
func (s Slot[T]) In(x *Exchange) *T {
	if len(x.slots) <= s.index || x.slots[s.index] == nil {
		return nil
	}
	return x.slots[s.index].(*T) //nolint:forcetypeassert // as above
}
