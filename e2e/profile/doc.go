// Package profile tells in golden files what every part of an agent's profile becomes at every provider, and has each request read by a
// fake of that provider, which refuses what the real one does. It needs no gateway.
package profile
