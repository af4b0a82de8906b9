"""Condition compiler: turns expression trees and the types of their columns into bytecode for the kernels' virtual machine."""
