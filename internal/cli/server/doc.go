// Package server has the commands that run nodes: serve, dev, init and restore. It joins packages
// cluster, api and config.
package server
