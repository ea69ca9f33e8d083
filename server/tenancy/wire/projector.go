package wire

// Projector translates for one view. It is safe for concurrent use and cheap
// enough to be made for every request.
type Projector struct {
	View  *View
	Table *Table
}
