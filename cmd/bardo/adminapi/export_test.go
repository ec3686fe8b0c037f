package adminapi

// Operations returns method, path and name of all operations.
func Operations() (all []string) {
	for _, op := range operations() {
		all = append(all, op.method+" "+op.path+" "+op.name)
	}
	return all
}
