package classifier

// Build is New with a set and a detector of the caller's.
var Build = build
