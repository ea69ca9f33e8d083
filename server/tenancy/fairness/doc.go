// Package fairness keeps the requests of tenants out of API priority and fairness: they
// have a seat on the processors already, for which those of each tenant waited by
// themselves (see fairqueue). What has none, as the requests of administrators in a
// tenant's name, is told apart by tenants there.
//
// Only server may import it.
package fairness
