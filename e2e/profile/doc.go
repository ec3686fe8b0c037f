// Package profile has the requests that profiles make read by fakes of the providers, which refuse what the real ones do: every part of
// an agent at models of every kind, and whatever else callers may say of a profile. It needs no gateway.
package profile
