package wire

// Projector translates for one view. It is safe for concurrent use and cheap
// enough to be made for every request.
type Projector struct {
	View  *View
	Table *Table
	// Named learns what a body says of another space, in metadata.tenant, and
	// each metadata.selfLink: an error refuses the body, otherwise the space is
	// that of the view. If it is nil, another metadata.tenant is refused.
	Named func(field, value string) error
	// Listed says how large the list is that is translated, once it begins to come. A
	// long list of which that is not known is held as a whole.
	Listed func() (Listed, bool)
	// Tenants adds a column to Tables that says whose the objects are.
	Tenants Column
	// Composite leaves everything else as it is. The view is then that of all.
	Composite bool
	// Groups is the annotation of the endpoints of the API with the service groups of
	// their subsets, which are added; everything else is left as it is. "" is for all
	// other answers.
	Groups string
}
