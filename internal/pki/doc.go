// Package pki knows who is at the other end of a connection: the certificates of
// a cluster, how they are made, kept, renewed and checked, and the tokens that
// stand in for them. It has the standard library's cryptography and no other.
//
// # Who is who
//
// A certificate speaks for one [Identity], in its only URI SAN:
//
//	spiffe://<cluster>/node/<node id>      a node
//	spiffe://<cluster>/client/<name>       a client
//
// Nothing else in a certificate says who somebody is: not the subject, not the
// address. So a node may move, and a name in DNS that somebody has taken over is
// worth nothing. With the operator's own CA ([OpenFiles]) two more forms count: a
// SPIFFE id of another trust domain is a client named by that whole id, and a
// certificate without any URI SAN is known by its DNS SANs: it is the node whose
// id is among them, or the client that the first one names. Whoever uses that CA
// must give DNS SANs that equal node ids to nodes alone.
//
// # What is against what
//
//	threat                                        measure
//	somebody on the network reads or changes      TLS 1.3 alone; no older version, no renegotiation
//	somebody without a certificate is a node      the peer port takes node certificates of this cluster's CA only
//	a client's certificate used as a node's       kinds in the URI; and client certificates are for clientAuth only,
//	                                              so that no client can pose as a server
//	one node speaks for another                   [Store.IsNode] holds the name that a peer gives itself to its certificate
//	traffic sent to the wrong machine             [Want]: the dialer says which node must answer; addresses prove nothing
//	a node certificate that signs others          never a CA; the CA has path length 0, so nobody below it can be one
//	a request that asks for more than it may      of a request only the key counts; names come from who asked, as the
//	                                              cluster knows it; weak keys and huge ones are refused, the latter
//	                                              before they are calculated with
//	a stolen key of a node or client              certificates are short-lived; NotAfter is within the CA's
//	a stolen key of the CA                        rotation of the CA, without a pause
//	a session that outlives its CA                no tickets, no resumption: each handshake asks today's bundle.
//	                                              What stands already, the owner of the connection asks again about
//	                                              ([Store.CheckCaller], [Store.CheckServer])
//	a joining node is led to a false cluster      the join token has the CA's hash; [CheckPinned]
//	a false node joins                            the token's secret: 256 random bits, which the cluster keeps as a hash
//	guessing a secret by timing                   only hashes are compared, in constant time
//	secrets in logs, errors, dumps                [Secret] and [KeyPEM] print as "[secret]" however they are printed;
//	                                              errors of parsers repeat nothing of a token
//	a log line forged in a certificate            what strangers sent is quoted and cut to 128 bytes
//	a stranger who sends megabytes                every size is bounded before anything is parsed
//	keys that others on the machine read          directory 0700, files 0600, from their first byte; [Store.Warnings]
//	a crash between certificate and key           the new key is on the disk before its certificate, see dir.go
//	clocks that differ                            certificates begin five minutes in the past ([Skew])
//
// What it cannot do: a certificate is not revoked one by one. Until it expires,
// it can be ended only by refusing its name further up (a node that is removed
// is no member), or by rotating the CA.
//
// # What is shown and trusted
//
// A [Store] has a certificate, its key and the trust bundle: in a directory that
// the cluster writes ([OpenStore]), in files of the operator ([OpenFiles]), or in
// memory ([NewStore]). What it has at one moment is one immutable value behind an
// atomic pointer. The configurations of crypto/tls that it makes never change;
// their callbacks read that pointer in each handshake. So renewal and rotation
// need no restart, and a handshake sees the certificate and the bundle of one
// moment.
//
// The callbacks verify, and not crypto/tls itself, for three reasons: its pools
// cannot be replaced in a configuration that others have cloned; it would hold
// certificates to host names; and what it says is not for the one who has to mend
// it. Every refusal is an [Error]: a [Why] for metrics and a sentence for the log.
// [Explain] finds such sentences for what crypto/tls still says itself.
//
// # Rotation
//
// A CA is replaced in three steps, and no handshake fails on the way: all nodes trust
// the next CA too; it signs, and all get certificates of it; nobody trusts the old one
// any more. A step is taken when the [Status] of every node says that the one before is
// done. What decides so is in cluster/membership/authority.go (rotateAuthority).
//
// Join tokens name the CA that signs. One that was made before another CA signs is
// refused with a sentence that says so. Tokens are short-lived; make new ones.
package pki
